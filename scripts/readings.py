#!/usr/bin/env python3
"""Sentences of our prose, picked at random, to be read by fresh eyes.

    scripts/readings.py SEED [COUNT] [--only docs|comments]

Prints COUNT sentences (60 without it), each with its place: from Markdown outside runs/ and docs/log/, and from comments
of Rust, C and C++. A reader marks those that break a rule of "Plain English" (CONTRIBUTING.md): at most 3 of 60 may. The
same seed picks the same sentences of the same tree.
"""

import argparse
import random
import re
import subprocess

COMMENT = re.compile(r"^\s*(?:///|//!|//|\*(?=\s))\s?(.*)$")
LIST = re.compile(r"^([-*]|\d+\.)\s+")
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\[])")
SHORTEST = 4


def paragraphs(path, lines):
    """The line and the text of each paragraph of prose; code, tables, headings and pictures are left out."""
    is_markdown = path.endswith(".md")
    text, first, fenced = [], 0, False
    for number, line in enumerate([*lines, ""], 1):
        if is_markdown:
            body = line.strip()
            is_prose = not line.startswith(("|", "#", "    ", "<"))
        else:
            match = COMMENT.match(line)
            body, is_prose = (match[1].strip(), True) if match else ("", False)
            is_prose = is_prose and not body.startswith(("|", "#")) and not re.search("[│─┌└▶▼]", body)
        if body.startswith("```"):
            fenced, body = not fenced, ""
        if not body or fenced or not is_prose or LIST.match(body):
            if text:
                yield first, " ".join(text)
            text = []
            if not body or fenced or not is_prose:
                continue
            body = LIST.sub("", body)
        if not text:
            first = number
        text.append(body)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?", default=60)
    parser.add_argument("--only", choices=["docs", "comments"])
    options = parser.parse_args()
    endings = {"docs": ["*.md"], "comments": ["*.rs", "*.c", "*.h", "*.cpp"]}
    wanted = [one for kind, all_ in endings.items() if options.only in (None, kind) for one in all_]
    listed = subprocess.run(["git", "ls-files", *wanted], capture_output=True, text=True, check=True).stdout.split()
    found = []
    for path in sorted(listed):
        if path.startswith(("runs/", "docs/log/")):
            continue
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        for number, text in paragraphs(path, lines):
            sentences = [one for one in END.split(text) if len(one.split()) >= SHORTEST]
            found += [(f"{path}:{number}", one) for one in sentences]
    for number, (place, sentence) in enumerate(random.Random(options.seed).sample(found, options.count), 1):
        print(f"{number:2} {place}\n   {sentence}")


if __name__ == "__main__":
    main()
