#!/usr/bin/env python3
"""Runs the Linux Test Project's system-call tests, or gVisor's, natively and by `duality run`.

    scripts/foreign_suites.py ltp FOLDER [--worlds one,two,ring] [--filter RE] [--native FILE]
    scripts/foreign_suites.py gvisor FOLDER [--options=--assertions]

FOLDER holds the suite as its user has built it. For ltp, it is LTP's source tree, with the programs
of testcases/kernel/syscalls in place; the commands are those of runtest/syscalls and
runtest/syscalls-ipc that have a program. For gvisor, it has programs of test/syscalls/linux; each
test of a program is a command.

A command passes if it exits with 0 before the limit. Only commands that pass natively are run on
the engine: on one worker, on two, and on the ring. A command that differs must stand in
scripts/foreign_suites.txt with its reason. The script exits with 1 if another one differs. At the
end, it prints for each world how many commands passed, differ for a known reason, and differ for
another one. --native keeps the native results in a file, for the next run.

What differs otherwise, or fails natively too when it is repeated, is repeated alone at the end, since
other jobs disturb tests about time. It stays undecided if it fails natively again and again.

Each command gets its own folder and process tree, as in scripts/suites.py. Run the script as root.
"""
import argparse
import collections
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys

import suites

KNOWN = pathlib.Path(__file__).resolve().parent / "foreign_suites.txt"
ALONE = 2  # how often a command is repeated alone until it is decided
LONGER = 4  # how many times the limit it then has
WORLDS = {"one": "--cores 1", "two": "--cores 2", "ring": "--cores 2 --poller uring"}


def ltp(folder):
    """The commands of LTP: a name, what stands before the program, and the program."""
    programs = {}
    for home, _, files in os.walk(folder / "testcases" / "kernel" / "syscalls"):
        programs.update((file, home) for file in files if os.access(os.path.join(home, file), os.X_OK))
    for listed in ("syscalls", "syscalls-ipc"):
        for line in (folder / "runtest" / listed).read_text().splitlines():
            words = line.split()
            if len(words) > 1 and not line.startswith("#") and words[1] in programs:
                home = programs[words[1]]
                path = f'env LTPROOT={folder} PATH="{home}:$PATH"'
                source = pathlib.Path(home, f"{words[1]}.c")
                if source.exists() and "resource_files" in source.read_text():
                    # The test copies files from where it is started.
                    path = f'cd "{home}"; {path}'
                yield words[0], path, f"{home}/{' '.join(words[1:])}"


def gvisor(folder):
    """The tests of gVisor's programs, in the same form."""
    for program in sorted(folder.iterdir()):
        if not os.access(program, os.X_OK) or program.is_dir():
            continue
        listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True).stdout
        group = ""
        for line in listed.splitlines():
            name = line.split("#")[0].rstrip()
            if name and not name.startswith(" "):
                group = name
            elif name.strip() and group.endswith("."):
                test = group + name.strip()
                yield f"{program.name}:{test}", 'env TEST_TMPDIR="$TMPDIR"', f"{program} --gtest_filter={test}"


SUITES = {"ltp": ltp, "gvisor": gvisor}


def expectations(suite):
    """The commands that differ for a known reason: patterns of names, and the worlds."""
    for line in KNOWN.read_text().splitlines():
        if line and not line.startswith("#"):
            of, pattern, worlds, _reason = line.split(None, 3)
            if of == suite:
                yield pattern, list(WORLDS) if worlds == "all" else worlds.split(",")


def compare(command, engine, asked, longer=1):
    """Whether a command that passes natively passes on the engine, and what it says otherwise."""
    _, before, program = command
    for _ in range(asked.tries):
        status, text = suites.run(f"{before} {engine} -- {program}", asked.limit * longer)
        if status == 0:
            return True, ""
        # A busy machine fails tests about time.
        if suites.run(f"{before} {program}", asked.limit * longer)[0] != 0:
            return None, ""
    return False, f"status {status}\n{text}"


def natively(commands, asked):
    """The names of the commands that pass natively."""
    kept = pathlib.Path(asked.native) if asked.native else None
    known = json.loads(kept.read_text()) if kept and kept.exists() else {}
    wanted = [command for command in commands if command[0] not in known]
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        run = lambda command: suites.run(f"{command[1]} {command[2]}", asked.limit)[0]
        for command, status in zip(wanted, pool.map(run, wanted)):
            known[command[0]] = status
            if kept:
                kept.write_text(json.dumps(known, indent=0))
    return {name for name, status in known.items() if status == 0}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--worlds", default=",".join(WORLDS))
    parser.add_argument("--filter", default="", metavar="RE")
    parser.add_argument("--skip", default="^$", metavar="RE")
    parser.add_argument("--duality", default=os.path.abspath("target/release/duality"))
    parser.add_argument("--options", default="", help="more of `duality run`, such as --assertions")
    parser.add_argument("--native", metavar="FILE", help="native results, kept and read")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=30, help="seconds for a command")
    parser.add_argument("--tries", type=int, default=2)
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    named = {command[0]: command for command in SUITES[asked.suite](folder)}
    commands = [
        command
        for name, command in named.items()
        if re.search(asked.filter, name) and not re.search(asked.skip, name)
    ]
    if not commands:
        sys.exit(f"{folder} has no program of {asked.suite}: build it there first")
    passing = natively(commands, asked)
    passing = [command for command in commands if command[0] in passing]
    print(f"{asked.suite}: {len(commands)} commands, {len(passing)} pass natively", flush=True)
    expected, unexpected = list(expectations(asked.suite)), 0
    for world in asked.worlds.split(","):
        is_known = lambda name: any(
            world in worlds and fnmatch.fnmatchcase(name, pattern) for pattern, worlds in expected
        )
        engine = f"{asked.duality} run {WORLDS[world]} {asked.options}"
        counts, again = collections.Counter(), []

        def note(command, passes, text):
            name = command[0]
            known = passes is False and is_known(name)
            kind = {True: "passed", None: "undecided"}.get(passes, "known" if known else "unexpected")
            counts[kind] += 1
            if kind != "passed":
                print(f"  {world}: {name}{'' if known else f' ({kind})'}", flush=True)
            if kind == "unexpected":
                print("".join(f"    {line[:200]}\n" for line in text.splitlines()[-8:]), end="")

        with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
            jobs = pool.map(lambda command: compare(command, engine, asked), passing)
            for command, (passes, text) in zip(passing, jobs):
                if passes or (passes is False and is_known(command[0])):
                    note(command, passes, text)
                else:
                    again.append(command)
        if again:
            print(f"  {world}: alone: {', '.join(name for name, *_ in again)}", flush=True)
        for command in again:
            results = (compare(command, engine, asked, LONGER) for _ in range(ALONE))
            last = next(results)
            while last[0] is None and (more := next(results, None)):
                last = more
            note(command, *last)
        unexpected += counts["unexpected"]
        kinds = ("passed", "known", "unexpected", "undecided")
        print(f"| {asked.suite} | {world} | {' | '.join(str(counts[kind]) for kind in kinds)} |", flush=True)
    sys.exit(1 if unexpected else 0)


if __name__ == "__main__":
    main()
