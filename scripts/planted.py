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
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from contextlib import nullcontext
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


def tools():
    """The command `duality` and the server with faults. DUALITY_TOOLS names another folder of both."""
    given = os.environ.get("DUALITY_TOOLS")
    if given:
        return Path(given) / "duality", Path(given) / "faulty"
    build = ["cargo", "build", "--release", "-p", "duality", "--bin", "duality", "-p", "duality-conformance", "--bin", "faulty"]
    subprocess.run(build, cwd=ROOT, check=True)
    folder = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    return folder / "duality", folder / "faulty"


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


def measure(binary, text, budget, out):
    """Runs an experiment and returns its summary."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml", delete=False) as file:
        file.write(text)
    command = [binary, "compare", file.name, "--out", str(out)]
    if budget:
        command += ["--budget", budget]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    os.unlink(file.name)
    if done.returncode != 0 and not (out / "planted" / "summary.json").exists():
        sys.exit(f"planted: {' '.join(command)}: {done.stderr.strip().splitlines()[-1:]}")
    (out / "screen.txt").write_text(done.stdout)
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


# Faults of the third server: the arguments of `faulty`, further lines of the plan, and how it must
# be named. `worse`: put out of the best set. `gate`: a fault that fails the gate. `told`: a sentence
# with these words. `withheld` is good enough for what only a quiet machine shows.
TRUTHS = {
    "none": ([], "", "level"),
    "two-microseconds": (["spin-ns=2000"], "", "worse"),
    "ten-per-cent": (["spin-ns=500"], "", "worse or withheld"),
    "wrong-bytes": (["wrong-every=5000"], "", "gate"),
    "wrong-bytes-rarely": (["wrong-every=10000"], "", "gate"),
    "wrong-bytes-late": (["wrong-every=100", "wrong-after-s=4"], "", "gate"),
    "cut": (["cut-every=50"], "", "gate"),
    "cut-rarely": (["cut-every=10000"], "", "gate"),
    "wrong-length": (["lie-every=1000"], "", "gate"),
    "status-500": (["error-every=1000"], "", "gate"),
    "status-500-rarely": (["error-every=10000"], "", "gate"),
    "crash": (["crash-after=30000"], "", "gate"),
    "crash-at-once": (["crash-after=200"], "", "gate"),
    "hang": (["hang-after=30000"], "", "gate"),
    "leak": (["leak=4096"], "", "told sue grows by"),
    "leak-little": (["leak=256"], "", "told sue grows by"),
    "stop": (["stop-ms=200", "stop-every-s=2"], "", "told sue stops"),
    "stop-often": (["stop-ms=60", "stop-every-s=1"], "", "told sue stops"),
    "late-answers": (["late-us=20000", "late-every=300"], "", "worse or told sue has a p99.9"),
    "connections": (["spin-each-ns=50"], "", "worse"),
    "two-modes": (["spin-half-ns=4000"], "", "worse"),
    "cold": (["spin-cold-ns=20000", "cold-s=1"], "", "level or worse or withheld"),
    "drift": (["spin-drift-ns=1000"], "", "worse"),
    "backlog": (["backlog=8"], "close = true\nconcurrency = [400]", "gate or told listen queue"),
    "memory": (["hold=20000000"], "memory = true", "gate"),
}


SCALE = float(os.environ.get("DUALITY_PLANTED_SCALE", "1"))
COUNTS = ("-every", "-after")


def scaled(fault):
    """The same fault after as many requests as this machine makes."""
    name, value = fault.split("=")
    return f"{name}={max(2, int(SCALE * int(value)))}" if name.endswith(COUNTS) else fault


def requests_of_sue(out):
    """How many requests the third server has answered in windows and slices."""
    total = 0
    for line in (out / "planted" / "results.jsonl").read_text().splitlines():
        record = json.loads(line)
        if record["kind"] == "cell" and record["architecture"] == "sue":
            total += record.get("requests", 0)
        for piece in record.get("slices", []) if record["kind"] == "block" else []:
            total += piece["requests"] if piece["architecture"] == "sue" else 0
    return total


def truth_plan(faulty, faults, more):
    """A plan of two equal servers, and a third one with these faults."""
    def peer(name, faults):
        return f'[[peer]]\nname = "{name}"\ncommand = {json.dumps([faulty, "{port}", *faults])}\n'
    limit = '[constraints]\nmemory = "15MB"\n\n' if more == "memory = true" else ""
    more = "" if limit else more
    concurrency = "" if "concurrency" in more else "concurrency = [64]\n"
    peers = "\n".join(peer(name, faults if name == "sue" else []) for name in ("ada", "bob", "sue"))
    return (f'title = "Is what was planted found?"\nsource = "scripts/planted.py"\n\n{limit}{peers}\n'
            f'[[experiment]]\nname = "planted"\nservice = "http"\narchitectures = []\n'
            f'peers = ["ada", "bob", "sue"]\n{concurrency}{more}\n')


def found_as(summary):
    """How the third server is named: a set of words."""
    recommendation = summary["recommendation"]
    words = set()
    for verdict in recommendation["loads"]:
        if is_withheld(verdict):
            words.add("withheld")
        for one in verdict["standings"]:
            if one["subject"] == "sue" and not is_withheld(verdict):
                words.add("level" if one["level"] else "worse")
    faults = [fault for cell in summary["cells"] if cell["architecture"] == "sue" for fault in cell["faults"]]
    if faults or any(one["architecture"] == "sue" for one in recommendation["refused"]):
        words.add("gate")
    return words, faults, recommendation["sentences"] + recommendation["unsaid"]


def truths(names, out):
    """Plants each fault, and says how it was found."""
    binary, faulty = map(str, tools())
    unknown = [name for name in names if name not in TRUTHS]
    if unknown:
        sys.exit(f"planted: there is no fault {unknown[0]}: choose from {', '.join(TRUTHS)}")
    good, missed, unseen = {}, [], []
    for name in names or TRUTHS:
        faults, more, expected = TRUTHS[name]
        faults = [scaled(fault) for fault in faults]
        if more not in good:
            good[more] = out / f"good-{len(good)}"
            measure(binary, truth_plan(faulty, [], more), "25s", good[more])
        measured = out / name
        words, found, sentences = found_as(measure(binary, truth_plan(faulty, faults, more), "25s", measured))
        gate = subprocess.run([binary, "report", good[more] / "planted", measured / "planted", "--fail-on-regression=30"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        first = gate.stdout.splitlines()[0] if gate.stdout else ""
        is_gate = "gate" in words and gate.returncode == 1
        kept = any(
            is_gate if way == "gate" else
            any(way[5:] in sentence for sentence in sentences) if way.startswith("told") else
            way in words
            for way in expected.split(" or "))
        requests = requests_of_sue(measured)
        least = max((int(fault.split("=")[1]) for fault in faults if fault.split("=")[0].endswith(COUNTS)), default=0)
        word = "found" if kept else "UNSEEN" if requests < 3 * least or "withheld" in words else "MISSED"
        missed += [name] if word == "MISSED" else []
        unseen += [name] if word == "UNSEEN" else []
        told = next((sentence for sentence in sentences if "sue" in sentence), sentences[0])
        print(f"{word:6} {name}: {', '.join(sorted(words))} {found or ''}; {requests} requests; gate exits {gate.returncode}"
              f"\n         {told}\n         {first}", flush=True)
    count = len(names or TRUTHS)
    print(f"truths: {count - len(missed) - len(unseen)} of {count} found; missed: {', '.join(missed) or 'none'}; "
          f"withheld, or not to be seen in so few requests: {', '.join(unseen) or 'none'}")
    return not missed


def trials(times):
    """Tries A/A trials: nothing may be decided for one of two equal candidates."""
    binary, wrong = str(tools()[0]), 0
    for number in range(times):
        command = [binary, "trial", "http", "--candidates", "a=epoll,b=epoll", "--listen", "127.0.0.1:0", "--slot", "200ms",
                   "--budget", "20s", "--then", "exit", "--json", "--seed", str(number)]
        trial = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        address, lines = None, []
        for line in trial.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "began":
                address = event["address"]
                load = subprocess.Popen([binary, "load", f"http://{address}/", "-c", "20", "--close", "-d", "18s"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            lines.append(event)
        load.wait()
        decided = next(one for one in lines if one.get("event") == "decided")
        wrong += decided["finding"]["finding"] == "winner"
        print(f"trials {number + 1} of {times}: {decided['finding']}", flush=True)
    print(f"trials: {wrong} of {times} trials of equal candidates had a winner")
    return wrong <= max(1, times // 20)


# Bad candidates: an architecture under which the program `uneven` is bad, more flags, and how.
CANDIDATES = {
    "pool": ([], "cuts 1 connection in 10"),
    "poll": ([], "answers 1 in 10 by a failure"),
    "select": ([], "accepts, and never answers"),
    "iterative": ([], "accepts one connection, and no other"),
    "uthreads": (["--slo", "p99=20ms"], "answers 50 ms late, beside --slo p99=20ms"),
    "threads": ([], "takes 300 us of processor time more"),
}


def asks(address, over, counts):
    """Makes requests on a connection each, and counts those that had no answer within a second."""
    host, port = address.rsplit(":", 1)
    while not over.is_set():
        counts["all"] += 1
        try:
            with socket.create_connection((host, int(port)), timeout=1) as stream:
                stream.sendall(b"how?\n")
                answered = stream.recv(64) == b"well\n"
        except OSError:
            answered = False
        if not answered:
            counts["hurt"] += 1


def candidates():
    """Tries a trial of each bad candidate beside a good one, and counts the requests that were hurt."""
    binary = str(uneven())
    good = True
    for name, (flags, how) in CANDIDATES.items():
        command = [binary, "trial", "--candidates", f"good=epoll,bad={name}", "--listen", "127.0.0.1:0", "--slot", "200ms",
                   "--budget", "20s", "--then", "exit", "--json", "--seed", "1", *flags]
        trial = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        counts, out, decided, clients, over = Counter(), None, None, [], threading.Event()
        # The trial itself ends after 20 s.
        threading.Timer(18, over.set).start()
        for line in trial.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "began":
                clients = [threading.Thread(target=asks, args=(event["address"], over, counts)) for _ in range(10)]
                for client in clients:
                    client.start()
            if event.get("event") == "out" and event["candidate"] == "bad":
                out = (event["at_s"], event["reason"]["why"])
            if event.get("event") == "decided":
                decided = event["finding"]
                # The trial ends, and what comes later is refused.
                over.set()
        for client in clients:
            client.join()
        is_found = (decided or {}).get("candidate") == "good"
        good &= is_found
        after = f"out after {out[0]:.1f} s ({out[1]})" if out else f"decided: {decided}"
        print(f"{'found ' if is_found else 'MISSED'} {name}, which {how}: {counts['hurt']} of {counts['all']} requests hurt; {after}",
              flush=True)
    return good


def uneven():
    """The service that is bad under some architectures. DUALITY_TOOLS names a folder with it."""
    given = os.environ.get("DUALITY_TOOLS")
    if given:
        return Path(given) / "uneven"
    subprocess.run(["cargo", "build", "--release", "-p", "duality-conformance", "--bin", "uneven"], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "uneven"


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
