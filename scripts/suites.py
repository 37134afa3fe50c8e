#!/usr/bin/env python3
"""Runs the programs of a test suite natively and by `duality run`, and lists the programs that pass
only natively.

    scripts/suites.py LIST [--filter RE] [--skip RE] [--options "--tick 1ms"] [--jobs 2] [--limit 30]

LIST has a line for each program: a name, and a command that `make` has built (programs of the Open
POSIX Test Suite, the Linux Test Project, glibc, musl's libc-test). A program passes if it exits
with 0 before the limit. If a program passes natively and not on the engine, both runs are repeated,
since a busy machine fails tests about time.

Each program gets its own folder, process tree, System V queues and `/dev/shm`. It cannot change the
machine (its clock, its modules). Run the script as root.
"""
import argparse
import collections
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import tempfile

FORBIDDEN = "-sys_time,-sys_boot,-sys_module,-sys_rawio,-syslog,-mac_admin"


def run(command, limit):
    """The status of a command, or "timeout", and its output."""
    folder = tempfile.mkdtemp(prefix="suite")
    os.chmod(folder, 0o777)
    script = f"mount -t tmpfs none /dev/shm; ulimit -S -c 0; {command}; exit $?"
    apart = ["setpriv", "--bounding-set", FORBIDDEN, "unshare", "-f", "-p", "-i", "-m", "-u", "--mount-proc"]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [*apart, "--kill-child=KILL", "sh", "-c", script],
            cwd=folder,
            env=dict(os.environ, TMPDIR=folder, HOME=folder),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            status = "timeout"
        output.seek(0)
        text = output.read(1 << 20).decode(errors="replace")
    shutil.rmtree(folder, ignore_errors=True)
    return status, text


def compare(name, command, engine, limit, tries):
    """The result of a program: `fails natively`, `same`, `flaky`, or `differs` with its output."""
    if run(command, limit)[0] != 0:
        return name, "fails natively", ""
    for attempt in range(tries):
        status, text = run(f"{engine} -- {command}", limit)
        if status == 0:
            return name, "flaky" if attempt else "same", text
        if run(command, limit)[0] != 0:
            return name, "fails natively", ""
    return name, "differs", f"status {status}\n{text}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("list")
    parser.add_argument("--filter", default="")
    parser.add_argument("--skip", default="^$")
    parser.add_argument("--duality", default=os.path.abspath("target/release/duality"))
    parser.add_argument("--options", default="", help="of `duality run`")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=30, help="seconds for a program")
    parser.add_argument("--tries", type=int, default=2)
    asked = parser.parse_args()
    with open(asked.list) as lines:
        programs = [line.split(None, 1) for line in lines if line.strip() and line[0] != "#"]
    wanted = [
        (name, command.strip())
        for name, command in programs
        if re.search(asked.filter, name) and not re.search(asked.skip, name)
    ]
    engine = f"{asked.duality} run {asked.options}"
    counts = collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        jobs = [pool.submit(compare, *one, engine, asked.limit, asked.tries) for one in wanted]
        for job in jobs:
            name, result, text = job.result()
            counts[result] += 1
            if result in ("flaky", "differs"):
                print(f"{result}: {name}", flush=True)
                if result == "differs":
                    print("".join(f"    {line}\n" for line in text.splitlines()[-12:]))
    print(", ".join(f"{count} {result}" for result, count in counts.most_common()))


if __name__ == "__main__":
    main()
