#!/usr/bin/env python3
"""Plants known differences between servers, lets the lab look for them, and counts the findings.

    python3 scripts/planted.py                  all below, about an hour
    python3 scripts/planted.py aa 40            40 experiments with one server under ten names
    python3 scripts/planted.py cpu10 5          5 of two minutes with one server that takes some 10 % more processor time
    python3 scripts/planted.py cpu5 2           2 of ten minutes with one that takes some 5 % more
    python3 scripts/planted.py wait 3           3 in an open loop with one that answers 1 ms later
    python3 scripts/planted.py memory 1         one with 2 MiB more, which is some 20 %

The servers are the program `planted` of crates/conformance, built by this script; DUALITY_PLANTED
names another copy of it. Beside every second experiment of `aa` a process burns the servers'
processor at random moments. The counts come from the summary.json of each experiment, which stays
in planted-results-TIME. The exit code is 1 if a promise of docs/method.md was not kept.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ["ada", "bob", "cem", "dan", "eva", "fay", "gus", "ian", "joy", "kim"]
EQUAL = 4000
BACKLOG = {"cpu5": 4001, "cpu10": 4002, "wait": 4003, "memory": 4004}


def program():
    """The program that is measured, and that measures."""
    given = os.environ.get("DUALITY_PLANTED")
    if given:
        return given
    build = ["cargo", "build", "--release", "-p", "duality-conformance", "--bin", "planted"]
    subprocess.run(build, cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", ROOT / "target")
    return str(Path(target) / "release" / "planted")


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


def measure(binary, text, budget, out):
    """Runs an experiment and returns its summary."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
        file.write(text)
    command = [binary, "compare", file.name, "--out", str(out)]
    if budget:
        command += ["--budget", budget]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.unlink(file.name)
    if done.returncode != 0:
        sys.exit(f"planted: {' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads((out / "planted" / "summary.json").read_text())


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


def is_withheld(verdict):
    return verdict["finding"]["finding"] == "withheld"


def aa(binary, times, out):
    """Measures one server under ten names. No name may leave the best set or win alone."""
    wrong, alone, withheld, verdicts = 0, 0, 0, 0
    for number in range(times):
        close, burns = number % 4 >= 2, number % 2 == 1
        print(f"aa {number + 1} of {times}: {'close' if close else 'keep-alive'}, "
              f"{'beside a burner' if burns else 'nothing beside'}", flush=True)
        text = plan(close=close, concurrency=[(20, 200)[number // 4 % 2]])
        run = lambda: measure(binary, text, "30s", out / f"aa-{number}")
        if burns:
            with Burner():
                summary = run()
        else:
            summary = run()
        all_verdicts = summary["recommendation"]["loads"]
        for verdict in all_verdicts:
            print(told(verdict), flush=True)
        said = [verdict for verdict in all_verdicts if not is_withheld(verdict)]
        put_out = [v for v in said if any(not one["level"] for one in v["standings"])]
        verdicts += len(all_verdicts)
        withheld += len(all_verdicts) - len(said)
        wrong += bool(put_out)
        alone += any(v["finding"]["finding"] == "best" for v in said)
    print(f"aa: an equal server was put out of the best set in {wrong} of {times} experiments, and {alone} had a sole winner; "
          f"{withheld} of {verdicts} verdicts were withheld")
    return wrong <= max(2, times // 20) and alone == 0


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
    binary, out = program(), Path(f"planted-results-{time.strftime('%Y%m%d-%H%M%S')}")
    asked = [(arguments[0], int(arguments[1]) if len(arguments) > 1 else 1)] if arguments else [
        ("aa", 40), ("cpu10", 5), ("cpu5", 2), ("wait", 3), ("memory", 1)]
    kept = True
    for what, times in asked:
        if what == "aa":
            kept &= aa(binary, times, out)
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
