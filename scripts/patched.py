#!/usr/bin/env python3
"""Measures a program on patch/tokio beside its build on the genuine tokio: processor time a request.

    scripts/patched.py GENUINE PATCHED /stock --rounds 6

Both are builds of one program that prints `listening on ADDRESS`, such as the shop of patch/try.
`{port}` in the page is the program's own port. The program has processor 0, the load has
processor 1, and worlds take turns. Needs target/release/duality. The world `threads` is left out:
the time of a thread that has ended is in no file of one program.
"""
import argparse
import os
import pathlib
import re
import statistics
import subprocess

LOAD = pathlib.Path(__file__).resolve().parent.parent / "target/release/duality"
WORLDS = ["tokio", "epoll", "uring", "uthreads", "poll", "select"]


def nanoseconds(pid):
    files = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files)


def measure(program, world, page, connections, seconds):
    """The processor time of a request, in microseconds."""
    environment = dict(os.environ, DUALITY_WORLD=world)
    command = ["taskset", "-c", "0", program]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = server.stdout.readline().split()[-1]
            target = f"http://{address}{page.format(port=address.rsplit(':', 1)[1])}"
            before = nanoseconds(server.pid)
            load = ["taskset", "-c", "1", LOAD, "load", target, "-c", str(connections), "-d", f"{seconds}s"]
            output = subprocess.run(load, capture_output=True, text=True).stdout
            used = nanoseconds(server.pid) - before
        finally:
            server.kill()
    # Requests before the load's window are in the time alone, so all values are a little high.
    return used / int(re.search(r"requests +(\d+) correct", output)[1]) / 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("genuine")
    parser.add_argument("patched")
    parser.add_argument("page")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=2)
    arguments = parser.parse_args()
    rounds = []
    for _ in range(arguments.rounds):
        programs = {world: arguments.genuine if world == "tokio" else arguments.patched for world in WORLDS}
        options = (arguments.page, arguments.connections, arguments.seconds)
        rounds.append({world: measure(program, world, *options) for world, program in programs.items()})
    print("| world | µs a request | to tokio |")
    print("| --- | ---: | ---: |")
    for world in WORLDS:
        ratios = sorted(one[world] / one["tokio"] for one in rounds)
        median = statistics.median(one[world] for one in rounds)
        ratio = f"{statistics.median(ratios):.2f} [{ratios[0]:.2f} to {ratios[-1]:.2f}]"
        print(f"| {world} | {median:.1f} | {ratio} |")


if __name__ == "__main__":
    main()
