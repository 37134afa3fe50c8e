#!/usr/bin/env python3
"""Measures a program on patch/tokio beside its build on the genuine tokio: processor time a request.

    scripts/patched.py GENUINE PATCHED /stock --rounds 6

Both are builds of one program that prints `listening on ADDRESS`, such as the shop of patch/try.
`{port}` in the page is the program's own port. The program has processor 0, the load has
processor 1, and worlds take turns. `duality compare --binary` cannot do this: the programs choose
their own ports. Needs target/release/duality. The world `threads` is left out:
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


def measure(command, target, connections, seconds, environment=os.environ, loader=LOAD):
    """The processor time of a request in microseconds, of a command that prints `listening on
    ADDRESS`. {address} and {port} in the target are of that address. `loader` has the command load."""
    pinned = ["taskset", "-c", "0", *command]
    with subprocess.Popen(pinned, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            address = next(line for line in server.stdout if "listening on" in line).split()[-1]
            target = target.format(address=address, port=address.rsplit(":", 1)[1])
            before = nanoseconds(server.pid)
            load = ["taskset", "-c", "1", loader, "load", target, "-c", str(connections), "-d", f"{seconds}s"]
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
        costs = {}
        for world in WORLDS:
            program = arguments.genuine if world == "tokio" else arguments.patched
            environment = dict(os.environ, DUALITY_WORLD=world)
            options = (arguments.connections, arguments.seconds, environment)
            costs[world] = measure([program], "http://{address}" + arguments.page, *options)
        rounds.append(costs)
    print("| world | µs a request | to tokio |")
    print("| --- | ---: | ---: |")
    for world in WORLDS:
        ratios = sorted(one[world] / one["tokio"] for one in rounds)
        median = statistics.median(one[world] for one in rounds)
        ratio = f"{statistics.median(ratios):.2f} [{ratios[0]:.2f} to {ratios[-1]:.2f}]"
        print(f"| {world} | {median:.1f} | {ratio} |")


if __name__ == "__main__":
    main()
