#!/usr/bin/env python3
"""Picks sentences of our prose at random, for a reader to judge.

    scripts/sentences.py SEED [COUNT] [--only docs|comments|help]

Prints COUNT sentences (60 by default), each with its place. The sentences come from Markdown
outside runs/, from comments of Rust, C and C++, and from the texts of the command:
help, errors and output. A reader marks the sentences that break a rule of "Plain English"
(CONTRIBUTING.md): at most 3 of 60 may. The same seed picks the same sentences of the same tree.
"""

import argparse
import random
import re
import subprocess

COMMENT = re.compile(r"^\s*(?:///|//!|//|/\*+|\*(?=\s))\s?(.*?)(?:\s*\*/)?$")
LIST = re.compile(r"^([-*]|\d+\.)\s+")
END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`*\[])")
DRAWN = re.compile("[│─┌└▶▼]")
SHORTEST = 4

# The folders with the command's texts, and the look of a text: words, or a placeholder.
SPEAKING = ("crates/duality/src/", "crates/lab/src/ask/", "crates/lab/src/tell/")
LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
TEXT = re.compile(r"^[A-Za-z{][^=<>]*$", re.DOTALL)


def paragraphs(path, lines):
    """The line and the text of each paragraph of prose, without code, tables, headings, pictures."""
    is_markdown = path.endswith(".md")
    text, first, fenced = [], 0, False
    for number, line in enumerate([*lines, ""], 1):
        if is_markdown:
            body = line.strip()
            is_prose = not line.startswith(("|", "#", "    ", "<"))
        else:
            match = COMMENT.match(line)
            body, is_prose = (match[1].strip(), True) if match else ("", False)
            is_prose = is_prose and not body.startswith(("|", "#")) and not DRAWN.search(body)
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


def literals(lines):
    """The line and the text of each string of the program, without its tests."""
    source = "\n".join(lines).split("#[cfg(test)]")[0]
    for match in LITERAL.finditer(source):
        text = re.sub(r"\\\n\s*", "", match[1]).replace('\\"', '"').replace("\\n", "\n")
        for part in text.split("\n"):
            if TEXT.match(part.strip()):
                yield source.count("\n", 0, match.start()) + 1, part.strip()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int, nargs="?", default=60)
    parser.add_argument("--only", choices=["docs", "comments", "help"])
    options = parser.parse_args()
    command = ["git", "ls-files", "*.md", "*.rs", "*.c", "*.h", "*.cpp"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    found = []
    for path in sorted(listed):
        if path.startswith("runs/"):
            continue
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        kind = "docs" if path.endswith(".md") else "comments"
        texts = list(paragraphs(path, lines)) if options.only in (None, kind) else []
        if path.startswith(SPEAKING) and options.only in (None, "help"):
            texts += literals(lines)
        for number, text in texts:
            sentences = [one for one in END.split(text) if len(one.split()) >= SHORTEST]
            found += [(f"{path}:{number}", one) for one in sentences]
    picked = random.Random(options.seed).sample(found, options.count)
    for number, (place, sentence) in enumerate(picked, 1):
        print(f"{number:2} {place}\n   {sentence}")


if __name__ == "__main__":
    main()
