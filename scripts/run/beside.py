"""Compares the processor time for a request with one subject's, block by block, from results of
`duality compare`.

    python3 scripts/run/beside.py [--markdown] SUBJECT RESULTS.jsonl…

A block loads all servers in turn within about a second. So other work of the machine does not
change the ratio within a block. Prints the median of the blocks' ratios and their quartiles. With
--markdown, prints one table of all files, with a column for each experiment and number of
connections.
"""

import json
import math
import pathlib
import statistics
import sys


def of_block(block):
    """The geometric mean of each subject's slices, in microseconds."""
    logarithms = {}
    for part in block["slices"]:
        if part["requests"] > 0 and part["server_cpu_us"] > 0:
            value = math.log(part["server_cpu_us"] / part["requests"])
            logarithms.setdefault(part["architecture"], []).append(value)
    return {name: math.exp(statistics.mean(values)) for name, values in logarithms.items()}


def ratios_of(base, path):
    """The ratios of each number of connections and subject, block by block."""
    ratios = {}
    with open(path) as lines:
        for line in map(json.loads, lines):
            if line["kind"] != "block":
                continue
            means = of_block(line)
            for name in means.keys() - {base} if base in means else ():
                place = (line["concurrency"], name)
                ratios.setdefault(place, []).append(means[name] / means[base])
    return {place: values for place, values in ratios.items() if len(values) >= 4}


def told(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def table(base, paths):
    """A table of all files. A subject's name may begin with the common prefix of its file, as the
    base's name does."""
    kind, _, base_name = base.rpartition("-")
    columns, rows = [], {}
    for path in paths:
        experiment = pathlib.Path(path).parent.name.removeprefix(f"{kind}-")
        ratios = ratios_of(base, path)
        for connections in sorted({connections for connections, _ in ratios}):
            columns.append(f"{experiment}, {connections:,}")
            for (count, name), values in ratios.items():
                if count == connections:
                    rows.setdefault(name.removeprefix(f"{kind}-"), {})[columns[-1]] = told(values)
    print(f"| multiple of `{base_name}` | " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for name in sorted(rows):
        print(f"| {name} | " + " | ".join(rows[name].get(column, "–") for column in columns) + " |")


def main():
    arguments = sys.argv[1:]
    if arguments[0] == "--markdown":
        table(arguments[1], arguments[2:])
        return
    base = arguments[0]
    for path in arguments[1:]:
        print(path)
        for (connections, name), values in sorted(ratios_of(base, path).items()):
            print(f"  {connections:6} {name:16} {told(values)}, {len(values)} blocks")


main()
