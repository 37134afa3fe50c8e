#!/usr/bin/env python3
"""Compares builds of duality with one another, to find the cost or gain of a change.

    python3 scripts/builds.py old=/tmp/duality-old new=target/release/duality \\
        --architectures epoll,uthreads --concurrency 100,1000 --budget 180s

Each build serves under each of the architectures as a peer, in blocks that take turns
(docs/method.md); the first build measures them. For each architecture and number of connections,
the script prints the server's processor time for a request of each build. The time is a ratio to
the first build's time, with its 99 % interval. A build with 1 in its interval is level with the
first. To see the gain of a micro-optimisation, remove it in another worktree and build that
worktree.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import tempfile


def plan(builds, options):
    lines = ['title = "builds"', "", "[[experiment]]", 'name = "builds"', f'service = "{options.service}"']
    lines += [f"architectures = {json.dumps(options.architectures.split(','))}", f"concurrency = [{options.concurrency.replace(',', ', ')}]"]
    lines += ["control = false", f"close = {str(options.close).lower()}"]
    names = [f"{a}-{name}" for a in options.architectures.split(",") for name, _ in builds]
    lines += [f"peers = {json.dumps(names)}"]
    for a in options.architectures.split(","):
        for name, path in builds:
            command = [os.path.abspath(path), "serve", options.service, f"--architecture={a}"]
            command += ["--listen={host}:{port}", *options.serve]
            lines += ["", "[[peer]]", f'name = "{a}-{name}"', f"command = {json.dumps(command)}"]
            lines += ['ready = "listening on"']
    return "\n".join(lines) + "\n"


def rounds(results):
    """The processor time of a request, in microseconds: {(connections, subject): {round: value}}.

    A round is a block. Without blocks, as for chat, a round is a repeat of the cells."""
    cells, sums = {}, {}
    for line in open(results):
        record = json.loads(line)
        if record.get("kind") == "cell" and record.get("server_cpu_us_per_request"):
            key = (record["concurrency"], record["architecture"])
            cells.setdefault(key, {})[record["repeat"]] = record["server_cpu_us_per_request"]
        for one in record["slices"] if record.get("kind") == "block" else []:
            which = (record["session"], record["group"], record["number"])
            total = sums.setdefault((record["concurrency"], one["architecture"]), {}).setdefault(which, [0, 0])
            total[0] += one["server_cpu_us"]
            total[1] += one["requests"]
    blocks = {key: {which: cpu / requests for which, (cpu, requests) in of.items() if cpu and requests}
              for key, of in sums.items()}
    return cells | blocks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("builds", nargs="+", metavar="NAME=PATH")
    parser.add_argument("--architectures", default="epoll,uthreads")
    parser.add_argument("--concurrency", default="100")
    parser.add_argument("--service", default="http")
    parser.add_argument("--close", action="store_true", help="a connection for each request")
    parser.add_argument("--budget", default="120s")
    parser.add_argument("--serve", action="append", default=[], help="a further argument of `serve`")
    options = parser.parse_args()
    builds = [build.split("=", 1) for build in options.builds]
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "builds.toml")
        with open(path, "w") as file:
            file.write(plan(builds, options))
        out = os.path.join(directory, "out")
        command = [os.path.abspath(builds[0][1]), "compare", path, "--out", out, "--budget", options.budget]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found = rounds(os.path.join(out, "builds", "results.jsonl"))
    first = builds[0][0]
    print("| architecture | connections | build | µs a request | ratio | 99 % | rounds |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for a in options.architectures.split(","):
        for count in map(int, options.concurrency.split(",")):
            base = found.get((count, f"{a}-{first}"), {})
            for name, _ in builds:
                own = found.get((count, f"{a}-{name}"), {})
                both = base.keys() & own.keys()
                if len(both) < 3:
                    print(f"| {a} | {count} | {name} | - | - | - | {len(both)} |")
                    continue
                logs = [math.log(own[which] / base[which]) for which in both]
                mean, half = statistics.mean(logs), 2.58 * statistics.stdev(logs) / math.sqrt(len(logs))
                low, ratio, high = (math.exp(value) for value in (mean - half, mean, mean + half))
                value = statistics.median(own[which] for which in both)
                print(f"| {a} | {count} | {name} | {value:.2f} | {ratio:.3f} | {low:.3f} to {high:.3f} | {len(both)} |")


if __name__ == "__main__":
    main()
