#!/usr/bin/env python3
"""Fills the tables of the pages in this folder from the reference runs under runs/, so that no figure is copied by hand.

A table stands between two comments, of which the first says where it comes from:

    <!-- duality report runs/2026-11-21-vm/zerohttpd --markdown rate -->
    <!-- end -->
    <!-- scripts/run/beside.py --markdown http-hand runs/2026-11-25-vm/conversion/http-long/results.jsonl -->
    <!-- end -->

Each such command is run from the root of the repository, and what it prints replaces what stood between. A run that is not there
yet is named, and its place left as it is; --check fails instead of writing when a page differs from its runs.

    cargo build --release && python3 docs/reproductions/fill.py [--check] [PROGRAM]
"""

import pathlib
import re
import shlex
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PLACE = re.compile(r"(<!-- (duality report|scripts/run/beside\.py) ([^>]*?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def table(program, command, arguments):
    """What the command prints, or None where its run is missing."""
    arguments = shlex.split(arguments)
    missing = [name for name in arguments if name.startswith("runs/") and not (ROOT / name).exists()]
    if missing:
        print(f"not measured yet: {missing[0]}", file=sys.stderr)
        return None
    words = [program, "report"] if command == "duality report" else [sys.executable, command]
    done = subprocess.run([*words, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def main():
    is_check = "--check" in sys.argv[1:]
    programs = [argument for argument in sys.argv[1:] if argument != "--check"]
    program = programs[0] if programs else str(ROOT / "target/release/duality")
    stale = []
    for page in sorted(HERE.glob("*.md")):
        text = page.read_text()

        def filled(found):
            printed = table(program, found[2], found[3])
            return found[0] if printed is None else f"{found[1]}\n{printed}\n\n{found[5]}"

        fresh = PLACE.sub(filled, text)
        if fresh == text:
            continue
        stale.append(page.name)
        if not is_check:
            page.write_text(fresh)
            print(f"filled: {page.name}")
    if is_check and stale:
        sys.exit(f"differ from their runs: {', '.join(stale)}")


main()
