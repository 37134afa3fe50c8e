#!/usr/bin/env python3
"""Counts the lines of turmoil's examples and tests, and of ours that stand for them.

    scripts/beside_turmoil.py FOLDER

FOLDER is a checkout of https://github.com/tokio-rs/turmoil. Blank lines and comments do not count.
A test of ours names turmoil's by `/// turmoil: NAME`. Examples are counted as whole files.
"""

import re
import sys
from pathlib import Path

OURS = Path(__file__).parent.parent / "patch/simulated/tests/programs/turmoil"
TESTS = ["crates/turmoil/tests/net/tcp.rs", "crates/turmoil/tests/net/udp.rs", "crates/turmoil/src/sim.rs"]
EXAMPLES = {
    "axum": ["examples/axum/src/main.rs"],
    "grpc": ["examples/grpc/src/main.rs"],
    "udp_broadcast": ["examples/udp_vpv4_broadcast/src/main.rs"],
    "udp_multicast": ["examples/udp_vpv4_multicast/src/main.rs"],
    "cluster": ["examples/cluster/src/lib.rs", "examples/cluster/tests/cluster.rs"],
}


def lines(text):
    stripped = (line.strip() for line in text.splitlines())
    return sum(1 for line in stripped if line and not line.startswith("//"))


def function(source, name):
    """The function `name`, from its `fn` to the brace at the same indentation."""
    found = re.search(rf"^( *)(?:async )?fn {name}\(.*?^\1}}", source, re.MULTILINE | re.DOTALL)
    return found and found[0]


def tests(file):
    source = file.read_text()
    for found in re.finditer(r"/// turmoil: (\w+).*?fn (\w+)\(", source, re.DOTALL):
        yield found[1], function(source, found[2])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = Path(sys.argv[1])
    theirs = "\n".join((folder / file).read_text() for file in TESTS)
    print("| | tests | lines there | lines here |")
    print("| --- | ---: | ---: | ---: |")
    for file in sorted(OURS.glob("*.rs")):
        if file.stem in EXAMPLES:
            there = sum(lines((folder / part).read_text()) for part in EXAMPLES[file.stem])
            print(f"| example {file.stem} | | {there} | {lines(file.read_text())} |")
            continue
        pairs = [(function(theirs, name), own, name) for name, own in tests(file)]
        for there, _, name in pairs:
            if there is None:
                sys.exit(f"turmoil has no test {name}: name another one in {file}")
        if pairs:
            there = sum(lines(there) for there, *_ in pairs)
            here = sum(lines(own) for _, own, _ in pairs)
            print(f"| {file.stem} | {len(pairs)} | {there} | {here} |")


if __name__ == "__main__":
    main()
