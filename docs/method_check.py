#!/usr/bin/env python3
"""Checks with real servers what docs/method.md promises; says one verdict for each check, and exits with 1 when one fails.

    cargo build --release && python3 docs/method_check.py target/release/duality

ties     identical servers under two names are level in at least 19 of 20 experiments
slower   a server that sleeps 1 ms more is found, and its millisecond measured
starved  a generator that shares its processor with a busy loop has only invalid cells, and says why
killed   a lab that is killed (SIGKILL) at 20 random moments measures every cell once, and loses none

The whole takes about seven minutes; --only, --experiments, --kills and --window make it shorter. It needs two processors.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing import Process

ECHO = """
import socket, sys, threading, time
pause = float(sys.argv[2])
def serve(stream):
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := stream.recv(65536):
        if pause:
            time.sleep(pause)
        stream.sendall(data)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


class Lab:
    """A directory with a plan of one experiment, called `check`."""

    def __init__(self, options, directory, keys, peers=""):
        self.program = os.path.abspath(options.duality)
        self.directory = pathlib.Path(directory)
        defaults = "title = 'check'\n[[experiment]]\nname = 'check'\nservice = 'echo'\nwarm-up = '100ms'\n"
        window = "" if "window" in keys else f"window = '{options.window}'\n"
        (self.directory / "plan.toml").write_text(defaults + window + keys + "\n" + peers)

    def command(self, out, *flags):
        return [self.program, "compare", "plan.toml", "--out", out, *flags]

    def compare(self, out, *flags):
        """The tables, as the lab prints them."""
        done = subprocess.run(
            self.command(out, *flags), cwd=self.directory, capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"method_check: {' '.join(self.command(out))}: {done.stderr}")
        return done.stdout

    def file(self, out):
        return self.directory / out / "check" / "results.jsonl"

    def results(self, out):
        """The design, and the cells."""
        lines = [json.loads(line) for line in self.file(out).read_text().splitlines()]
        return lines[0]["design"], lines[1:]

    def failures(self, out):
        return sum(1 for cell in self.results(out)[1] if cell["outcome"] == "failed")


def peer(name, *command):
    return f"[[peer]]\nname = '{name}'\ncommand = {json.dumps(command)}\n"


def beside(told, other, name):
    """The interval of `name`'s requests/s as a multiple of `other`'s, from the lab's table."""
    table = told.split(f"requests/s as a multiple of {other}'s")[1].split("\n\n")[0]
    row = next(line for line in table.splitlines() if line.split()[:1] == [name])
    low, high = re.search(r"\[([\d.]+) to ([\d.]+)\]", row).groups()
    return float(low), float(high), row.strip()


def ties(options, directory):
    serve = [os.path.abspath(options.duality), "serve", "echo", "-a", "epoll", "--listen", "{host}:{port}"]
    keys = "architectures = ['epoll']\npeers = ['one', 'two']\nconcurrency = [20]\nrepeats = 5"
    lab = Lab(options, directory, keys, peer("one", *serve) + peer("two", *serve))
    level = sound = doubtful = 0
    for experiment in range(options.experiments):
        told = lab.compare(f"out{experiment}")
        low, high, row = beside(told, "one", "two")
        level += low <= 1 <= high
        sound += "A/A control failed" not in told
        doubtful += "✗" in told
        print(f"  {experiment + 1}: {row}", flush=True)
    allowed = options.experiments // 20
    verdict = f"{level} of {options.experiments} ties; the control was one in {sound}; {doubtful} with invalid rows"
    return options.experiments - level <= allowed, verdict


def slower(options, directory):
    server = [sys.executable, "-c", ECHO, "{port}"]
    keys = "architectures = ['epoll']\npeers = ['plain', 'slow']\nconcurrency = [4]\nrepeats = 5\ncontrol = false"
    lab = Lab(options, directory, keys, peer("plain", *server, "0") + peer("slow", *server, "0.001"))
    _, high, row = beside(lab.compare("out"), "plain", "slow")

    def latency(name):
        cells = [cell for cell in lab.results("out")[1] if cell["architecture"] == name]
        return sorted(cell["latency_us"]["mean"] for cell in cells)[len(cells) // 2]

    more = (latency("slow") - latency("plain")) / 1000
    return high < 1 and 0.9 < more < 2, f"{row}; {more:.2f} ms more for each request"


def spin(cpu):
    os.sched_setaffinity(0, {cpu})
    while True:
        pass


def starved(options, directory):
    lab = Lab(options, directory, "architectures = ['epoll', 'threads']\nconcurrency = [20]\nrepeats = 3")
    lab.compare("calm")
    design, calm = lab.results("calm")
    if not design["client_cpus"]:
        return False, "this machine has one processor: nothing can be pinned"
    loops = [Process(target=spin, args=(cpu,), daemon=True) for cpu in design["client_cpus"]]
    try:
        for loop in loops:
            loop.start()
        told = lab.compare("starved")
    finally:
        for loop in loops:
            loop.kill()
    cells = lab.results("starved")[1]
    invalid = [cell for cell in cells if "starved" in cell.get("invalid", {})]
    before = sum(1 for cell in calm if "invalid" in cell)
    says = "The generator was starved" in told and "Nothing can be recommended" in told
    verdict = f"{len(invalid)} of {len(cells)} cells invalid beside a busy loop, {before} of {len(calm)} without"
    return len(invalid) == len(cells) and says and before < len(calm) / 2, verdict


def finished(lab, out):
    """The places of all cells that have ended, each as often as there is a line of it."""
    cells = [cell for cell in lab.results(out)[1] if cell["outcome"] != "failed"]
    return [(cell["architecture"], cell["concurrency"], cell["repeat"]) for cell in cells]


def killed(options, directory):
    keys = "architectures = ['epoll', 'threads', 'poll']\nconcurrency = [1, 5]\nrepeats = 4\nwindow = '100ms'"
    lab = Lab(options, directory, keys)
    places = itertools.product(["epoll", "threads", "poll", "epoll (again)"], [1, 5], range(4))
    expected = sorted(places)
    kills = experiments = measured = 0
    chance = random.Random(options.seed)
    while kills < options.kills:
        out = f"out{experiments}"
        experiments += 1
        whole = b""
        while True:
            last = kills == options.kills
            lab_process = subprocess.Popen(
                lab.command(out, "--resume"), cwd=lab.directory,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            try:
                lab_process.wait(None if last else chance.uniform(0.05, 2.5))
            except subprocess.TimeoutExpired:
                lab_process.send_signal(signal.SIGKILL)
                lab_process.wait()
                kills += 1
            text = lab.file(out).read_bytes() if lab.file(out).exists() else b""
            if not text.startswith(whole):
                return False, f"after kill {kills} of {out}, a line that was whole is gone"
            whole = text[: text.rfind(b"\n") + 1]
            if lab_process.returncode == 0:
                break
            if lab_process.returncode != -signal.SIGKILL:
                return False, f"{out} ended with {lab_process.returncode} after kill {kills}"
        # A cell that failed is measured again, by the next --resume; one that ended must not be.
        while len(ended := finished(lab, out)) < len(expected) and lab.failures(out) < 10:
            lab.compare(out, "--resume")
        if sorted(ended) != expected:
            return False, f"{out}: {len(ended)} cells ended, in {len(set(ended))} of {len(expected)} places"
        measured += len(ended)
    return True, f"{kills} kills in {experiments} experiments; all {measured} cells are there once"


CHECKS = [ties, slower, starved, killed]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("duality", help="the program")
    names = [check.__name__ for check in CHECKS]
    parser.add_argument("--only", choices=names, nargs="+", default=names, help="these checks")
    parser.add_argument("--experiments", type=int, default=20, help="of the check ties")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--window", default="300ms", help="of each cell, but for the check killed")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the moments of the kills")
    options = parser.parse_args()
    right = True
    for check in CHECKS:
        if check.__name__ in options.only:
            with tempfile.TemporaryDirectory() as directory:
                passed, verdict = check(options, directory)
            print(f"{'ok    ' if passed else 'FAILED'} {check.__name__}: {verdict}", flush=True)
            right = right and passed
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
