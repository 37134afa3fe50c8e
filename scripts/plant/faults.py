"""Faults of a server, and how each must be named (`planted.py truths`)."""

import json
import os
import subprocess
import sys

from lab import is_withheld, measure, tools

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
