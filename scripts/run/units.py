"""Measures unit costs of threads, in turn: an unmodified pthreads program natively and by `duality
run`, State Threads and GNU Pth.

    cargo xtask peers
    python3 scripts/run/units.py DUALITY ROUNDS [COST,…]

The programs come from peers/ and run on processor 0. Each round asks each program for each cost
once, in a new random order. Prints the median of the rounds, with the least and the greatest, as a
table in Markdown. The figures are nanoseconds of processor time, user and kernel, so that other
jobs on the machine count little.
"""

import pathlib
import random
import resource
import statistics
import subprocess
import sys

# The number of operations in a round: about a tenth of a second, natively.
COUNTS = {
    "spawn": 20_000,
    "yield-2": 200_000,
    "yield-1000": 200_000,
    "condition": 50_000,
    "lock": 10_000_000,
    "contended": 100_000,
    "sleep": 50_000,
}

# Pth looks through all threads in each turn, so it gets fewer turns.
SLOW = {("pth", "yield-1000"): 20_000, ("pth", "condition"): 10_000, ("pth", "contended"): 20_000}

WHAT = {
    "spawn": "create and join a thread",
    "yield-2": "yield between 2 threads",
    "yield-1000": "yield among 1,000 threads",
    "condition": "round trip by condition variables (two hand-overs)",
    "lock": "lock and unlock a free mutex",
    "contended": "hand over a mutex that another thread waits for",
    "sleep": "sleep 1 ms and wake, one of 100 threads",
}


def processor_time(words, cost, count):
    """Seconds of processor time of a program for `count` operations. None if the program lacks the
    operation or fails."""
    command = ["taskset", "-c", "0", *words, cost, str(count)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = subprocess.run(command, capture_output=True, text=True, timeout=120)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    parts = said.stdout.split()
    if said.returncode or len(parts) != 4 or parts[0] != cost:
        print(f"{' '.join(command)}: {said.stdout}{said.stderr}", file=sys.stderr)
        return None
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ask(words, cost, count):
    """Nanoseconds of processor time for each operation. The start of the program is in both terms
    of the difference."""
    few = count // 10
    times = [processor_time(words, cost, many) for many in (few, count)]
    return None if None in times else 1e9 * (times[1] - times[0]) / (count - few)


def figure(values):
    def told(value):
        return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"

    if not values:
        return "–"
    return f"{told(statistics.median(values))} ({told(min(values))} to {told(max(values))})"


def main():
    duality, rounds = sys.argv[1], int(sys.argv[2])
    costs = sys.argv[3].split(",") if len(sys.argv) > 3 else list(COUNTS)
    peers = pathlib.Path(duality).resolve().parent.parent / "peers"
    programs = {
        "native": [str(peers / "pthreads")],
        "run": [duality, "run", "--", str(peers / "pthreads")],
        "st": [str(peers / "st")],
        "pth": [str(peers / "pth")],
    }
    found = {(name, cost): [] for name in programs for cost in costs}
    for _ in range(rounds):
        questions = list(found)
        random.shuffle(questions)
        for name, cost in questions:
            value = ask(programs[name], cost, SLOW.get((name, cost), COUNTS[cost]))
            if value is not None:
                found[name, cost].append(value)
    print("| ns | pthreads, native | pthreads, `duality run` | State Threads | GNU Pth |")
    print("| --- | --- | --- | --- | --- |")
    for cost in costs:
        cells = " | ".join(figure(found[name, cost]) for name in programs)
        print(f"| {WHAT[cost]} | {cells} |")


main()
