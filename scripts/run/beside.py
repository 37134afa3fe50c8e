"""Processor time for each request as a multiple of one subject's, block by block, from results of `duality compare`.

    python3 scripts/run/beside.py SUBJECT RESULTS.jsonl…

In a block all servers are driven in turn within a second or so. So the ratio within a block does not mind what else the machine does.
Prints the median of the blocks' ratios and their quartiles.
"""

import json
import math
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


def main():
    base = sys.argv[1]
    for path in sys.argv[2:]:
        ratios = {}
        with open(path) as lines:
            for line in map(json.loads, lines):
                if line["kind"] != "block":
                    continue
                means = of_block(line)
                for name in means.keys() - {base} if base in means else ():
                    place = (line["concurrency"], name)
                    ratios.setdefault(place, []).append(means[name] / means[base])
        print(path)
        for (connections, name), values in sorted(ratios.items()):
            if len(values) < 4:
                continue
            low, middle, high = statistics.quantiles(values, n=4)
            print(f"  {connections:6} {name:16} {middle:.2f} ({low:.2f} to {high:.2f}), {len(values)} blocks")


main()
