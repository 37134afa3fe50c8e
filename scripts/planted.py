#!/usr/bin/env python3
"""Plants known differences between servers, lets the lab look for them, and counts the findings.

    python3 scripts/planted.py                  all of the five below, about an hour and a half
    python3 scripts/planted.py aa 40            40 experiments with one server under ten names
    python3 scripts/planted.py cpu10 5          5 of two minutes with one server that takes some 10 % more processor time
    python3 scripts/planted.py cpu5 2           2 of ten minutes with one that takes some 5 % more
    python3 scripts/planted.py wait 3           3 in an open loop with one that answers 1 ms later
    python3 scripts/planted.py memory 1         one with 2 MiB more, which is some 20 %
    python3 scripts/planted.py truths           25 faults of a server, each for 25 s: eleven minutes
    python3 scripts/planted.py truths cut leak  these faults only
    python3 scripts/planted.py trials 40        40 trials of two equal candidates, each for 20 s
    python3 scripts/planted.py candidates       a trial of each of six bad candidates, two minutes
    python3 scripts/planted.py races 40         `aa`, as races of 30 s
    python3 scripts/planted.py defaults 12      12 default runs, every second one beside `stress-ng --cpu 1`
    python3 scripts/planted.py live 10          10 pairs of runs of 20 s, with and without a live page that is read

For the first five, the servers are the program `planted` of crates/conformance, built by this script; DUALITY_PLANTED
names another copy of it. Beside every second experiment of `aa` a process burns the servers'
processor at random moments. The counts come from the summary.json of each experiment, which stays
in planted-results-TIME. The exit code is 1 if a promise of docs/method.md was not kept.

Each fault of `truths` is planted in the third of three servers, the program `faulty` of the same
crate. It must be named: by the verdict, as a fault, or as a finding. Otherwise the verdict must be
withheld with its reason. What makes a server wrong must also fail `duality report GOOD BAD
--fail-on-regression`. A fault that was not to be seen says so: a fault of one request in 10,000
needs some ten thousand requests. On a machine that is slow or busy, DUALITY_PLANTED_SCALE=0.05 has
each fault 20 times as often.

`races` and `defaults` print of each run: the headline and its words, the best set of each load, the
largest difference that the run could have missed among its contenders, and the lines of the first
screen. DUALITY_TOOLS names a folder with `duality` for `defaults` and `live`.
"""

import json
import math
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "plant"))

from faults import truths
from lab import is_withheld, measure, program, tools
from trials import candidates, trials

NAMES = ["ada", "bob", "cem", "dan", "eva", "fay", "gus", "ian", "joy", "kim"]
EQUAL = 4000
BACKLOG = {"cpu5": 4001, "cpu10": 4002, "wait": 4003, "memory": 4004}


def plan(worse=None, close=False, concurrency=(20, 200), more=""):
    """A plan in which the last of ten servers may be worse."""
    def subject(name):
        backlog = BACKLOG[worse] if worse and name == NAMES[-1] else EQUAL
        return f'{{ name = "{name}", architecture = "epoll", options = ["--backlog={backlog}"] }}'
    subjects = ",\n    ".join(subject(name) for name in NAMES)
    return f"""title = "Is what was planted found?"
source = "scripts/planted.py"

[[experiment]]
name = "planted"
service = "page"
control = false
close = {str(close).lower()}
concurrency = {list(concurrency)}
{more}
architectures = [
    {subjects},
]
"""


class Burner:
    """Burns a processor at random moments, about a third of the time."""

    def __enter__(self):
        script = ("import random,time\nwhile True:\n    until=time.monotonic()+random.expovariate(1/0.3)\n"
                  "    while time.monotonic()<until: pass\n    time.sleep(random.expovariate(1/0.6))")
        self.process = subprocess.Popen(["taskset", "-c", "0", sys.executable, "-c", script])

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Stress:
    """`stress-ng --cpu 1`: a neighbour that takes a processor."""

    def __enter__(self):
        try:
            self.process = subprocess.Popen(["stress-ng", "--cpu", "1"], stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            sys.exit("planted: there is no stress-ng: install it (apt install stress-ng)")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def told(verdict):
    """A verdict in a line."""
    evidence = verdict["evidence"]
    level = [one["subject"] for one in verdict["standings"] if one["level"]]
    finding = verdict["finding"]
    word = finding.get("finding") + (" " + str(finding["cause"]) if "cause" in finding else "")
    critical = "unknown" if verdict["critical"] is None else f"{100 * verdict['critical']:.1f} %"
    return (f"  {verdict['concurrency']:>5}: {word}; level {len(level)} of {len(verdict['standings'])}; critical "
            f"{critical}; {evidence['blocks']} blocks, {evidence['dropped']} dropped; strangers up to "
            f"{100 * evidence['strangers']:.0f} %, steal up to {100 * evidence['stolen']:.0f} %")


def missed(loads):
    """The largest difference that a run could have missed among the contenders of a load."""
    several = [load for load in loads if sum(one["level"] for one in load["standings"]) > 1]
    return max((load["critical"] or math.inf for load in several), default=0.0)


def answer(said, screen):
    """The answer of a run, in lines."""
    lines = [f"  {len(said['headline'].split())} words, {len(screen.splitlines())} lines of the screen; differences up to "
             f"{100 * missed(said['loads']):.1f} % could have been missed", f"  {said['headline']}"]
    for load in said["loads"]:
        best = [f"{one['subject']} {100 * one['behind']:+.0f} %" for one in load["standings"] if one["level"]]
        lines.append(f"  {load['concurrency']:>6}: {load['finding']['finding']}; {', '.join(best) or 'none'}")
    return "\n".join(lines)


def defaults(times, out):
    """Makes default runs. Counts those whose answers are as docs/method.md has them."""
    binary, good, choices = str(tools()[0]), 0, Counter()
    for number in range(times):
        folder, is_beside = out / f"default-{number}", number % 2 == 1
        with Stress() if is_beside else nullcontext():
            done = subprocess.run([binary, "compare", "--out", str(folder)], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        said = json.loads((folder / "summary.json").read_text())["recommendation"]
        beside = "beside stress-ng" if is_beside else "nothing beside"
        print(f"defaults {number + 1} of {times}: {beside}, exits {done.returncode}\n{answer(said, done.stdout)}", flush=True)
        far = [one for load in said["loads"] for one in load["standings"] if one["level"] and one["behind"] >= 0.25]
        withheld = any(is_withheld(load) for load in said["loads"])
        choices[said["architecture"]] += 1
        good += not far and not withheld and missed(said["loads"]) <= 0.12 and bool(said["architecture"])
    print(f"defaults: in {good} of {times} runs each load has a best set without any that is worse by 25 %, one is recommended, "
          f"and differences above 12 % would have been seen; choices: {dict(choices)}")
    return 10 * good >= 9 * times


def watch(command):
    """Runs a command with a live page, and reads the page to its end."""
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for line in run.stderr:
        if line.startswith("live page at "):
            events = urllib.request.urlopen(line.split()[-1] + "events")
            threading.Thread(target=lambda: sum(1 for _ in events), daemon=True).start()
    return run.wait()


def cost(results):
    """The mean logarithm of each architecture's processor time for a request."""
    costs = {}
    for line in results.read_text().splitlines():
        record = json.loads(line)
        for piece in record["slices"] if record["kind"] == "block" else []:
            if piece["requests"]:
                costs.setdefault(piece["architecture"], []).append(math.log(piece["server_cpu_us"] / piece["requests"]))
    return {name: statistics.mean(all) for name, all in costs.items()}


def live(times, out):
    """Compares runs beside a live page, which a client reads, with runs without a page."""
    binary, more = str(tools()[0]), {}
    for number in range(2 * times):
        # The order of a pair is that of the pair before in a mirror, so a drift falls out.
        is_on, pair = number % 4 in (1, 2), number // 2
        folder = out / f"live-{pair}-{'on' if is_on else 'off'}"
        command = [binary, "compare", "-a", "epoll,threads", "-c", "100", "--no-control", "--repeats", "3", "--blocks", "30",
                   "--seed", str(pair), "--out", str(folder)]
        code = watch([*command, "--live"]) if is_on else watch(command)
        if code != 0:
            sys.exit(f"planted: {' '.join(command)}: exits {code}")
        for name, mean in cost(folder / "results.jsonl").items():
            more.setdefault(name, [0.0] * times)[pair] += mean if is_on else -mean
    kept = True
    for name, all in more.items():
        shares = [100 * math.expm1(one) for one in all]
        error = statistics.stdev(all) / math.sqrt(times) if times > 1 else math.inf
        is_more = statistics.mean(all) > 3 * error
        kept &= not is_more
        print(f"live: {name}: {100 * math.expm1(statistics.mean(all)):+.2f} % processor time a request beside a page, standard error "
              f"{100 * error:.2f} %; pairs from {min(shares):+.1f} to {max(shares):+.1f} %{'; MORE' if is_more else ''}")
    return kept


def aa(binary, times, out, races=False):
    """Measures one server under ten names. No name may leave the best set or win alone. In a race,
    two may leave it."""
    wrong, alone, withheld, verdicts, many = 0, 0, 0, 0, 0
    for number in range(times):
        close, burns = number % 4 >= 2, number % 2 == 1
        print(f"aa {number + 1} of {times}: {'close' if close else 'keep-alive'}, "
              f"{'beside a burner' if burns else 'nothing beside'}", flush=True)
        text = plan(close=close, concurrency=[(20, 200)[number // 4 % 2]], more="race = true" if races else "")
        run = lambda: measure(binary, text, "30s", out / f"aa-{number}")
        if burns:
            with Burner():
                summary = run()
        else:
            summary = run()
        all_verdicts = summary["recommendation"]["loads"]
        for verdict in all_verdicts:
            print(told(verdict), flush=True)
        if races:
            print(answer(summary["recommendation"], (out / f"aa-{number}" / "screen.txt").read_text()), flush=True)
        said = [verdict for verdict in all_verdicts if not is_withheld(verdict)]
        many += any(sum(not one["level"] for one in verdict["standings"]) > 2 for verdict in said)
        put_out = [v for v in said if any(not one["level"] for one in v["standings"])]
        verdicts += len(all_verdicts)
        withheld += len(all_verdicts) - len(said)
        wrong += bool(put_out)
        alone += any(v["finding"]["finding"] == "best" for v in said)
    print(f"aa: an equal server was put out of the best set in {wrong} of {times} experiments, and {alone} had a sole winner; "
          f"more than two were put out in {many}; {withheld} of {verdicts} verdicts were withheld")
    return (many == 0 if races else wrong <= max(2, times // 20)) and alone == 0


def differences(binary, what, times, out):
    """Measures ten servers, one of them worse. Counts how often the worse server, and no other,
    leaves the best set."""
    settings = {
        "cpu10": ("120s", dict(concurrency=(1, 20, 200, 1000))),
        "cpu5": ("600s", dict(concurrency=(1, 20, 200, 1000))),
        "wait": ("120s", dict(concurrency=(50,), more='pattern = "open"\nrate = 3000\nrepeats = 9')),
    }
    budget, shape = settings[what]
    found, looked, others, withheld = 0, 0, 0, 0
    for number in range(times):
        print(f"{what} {number + 1} of {times}", flush=True)
        summary = measure(binary, plan(worse=what, **shape), budget, out / f"{what}-{number}")
        for verdict in summary["recommendation"]["loads"]:
            print(told(verdict), flush=True)
            worse = next(one for one in verdict["standings"] if one["subject"] == NAMES[-1])
            if worse["behind"] is not None:
                print(f"         planted: {100 * worse['behind']:+.1f} % [{100 * worse['low']:.1f} to {100 * worse['high']:.1f}]")
            # A little more work does not show in the rate of servers that wait.
            if what != "wait" and verdict["metric"] != "server-cpu":
                continue
            looked += 1
            withheld += is_withheld(verdict)
            found += not worse["level"] and not is_withheld(verdict)
            equal = [one for one in verdict["standings"] if one["subject"] != NAMES[-1]]
            others += any(not one["level"] for one in equal) and not is_withheld(verdict)
    print(f"{what}: found at {found} of {looked} numbers of connections; withheld {withheld}; another server was put out {others} "
          "times")
    return found >= 0.8 * (looked - withheld)


def memory(binary, times, out):
    """Measures ten servers, one of them with 2 MiB more. Returns whether the figures show the 2
    MiB."""
    good = 0
    for number in range(times):
        summary = measure(binary, plan(worse="memory", concurrency=(20,)), "30s", out / f"memory-{number}")
        bytes_of = {cell["architecture"]: cell["server_peak_bytes"] for cell in summary["cells"]}
        worse = bytes_of.pop(NAMES[-1])
        print(f"memory: {worse / 2**20:.1f} MiB beside {min(bytes_of.values()) / 2**20:.1f} to "
              f"{max(bytes_of.values()) / 2**20:.1f} of the others")
        good += worse > 1.1 * max(bytes_of.values())
    return good == times


def main():
    arguments = sys.argv[1:]
    if arguments and arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0
    out = Path(f"planted-results-{time.strftime('%Y%m%d-%H%M%S')}")
    if arguments and arguments[0] == "truths":
        return 0 if truths(arguments[1:], out) else 1
    if arguments and arguments[0] == "candidates":
        return 0 if candidates() else 1
    if arguments and arguments[0] == "trials":
        return 0 if trials(int(arguments[1]) if len(arguments) > 1 else 10) else 1
    if arguments and arguments[0] in ("defaults", "live"):
        times = int(arguments[1]) if len(arguments) > 1 else 10
        return 0 if {"defaults": defaults, "live": live}[arguments[0]](times, out) else 1
    binary = program()
    asked = [(arguments[0], int(arguments[1]) if len(arguments) > 1 else 1)] if arguments else [
        ("aa", 40), ("cpu10", 5), ("cpu5", 2), ("wait", 3), ("memory", 1)]
    kept = True
    for what, times in asked:
        if what in ("aa", "races"):
            kept &= aa(binary, times, out, what == "races")
        elif what == "memory":
            kept &= memory(binary, times, out)
        elif what in BACKLOG:
            kept &= differences(binary, what, times, out)
        else:
            print(f"planted: there is no {what}: see --help", file=sys.stderr)
            return 2
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
