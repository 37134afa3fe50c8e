#!/usr/bin/env python3
"""Runs h2spec and Autobahn against programs on patch/tokio, under each world.

    scripts/tokio_protocols.py FOLDER [--h2spec PATH] [--wstest PATH] [--worlds epoll,…,tokio]

h2spec asks the shop of patch/try for HTTP/2 by prior knowledge. Autobahn drives the examples
`autobahn-server` and `autobahn-client` of tokio-tungstenite, as they are. The world `tokio` is the
genuine tokio. Without a path, the script leaves that suite out.

Autobahn needs Python 2.7: `virtualenv -p python2.7 ab; ab/bin/pip install autobahntestsuite`.
h2spec comes by `go install github.com/summerwind/h2spec/cmd/h2spec@latest`.

The examples use the fixed ports 9001 and 9002, so only one run at a time is possible.
"""
import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

import tokio_suites
from tokio_suites import PATCH, WORLDS

SERVER, CLIENT = 9002, 9001


def program(folder, world, package, kind, name):
    """Builds a program, and returns its path. `package` is `try` or a suite."""
    genuine = world == "tokio"
    if package == "try":
        home = PATCH / "try"
        if genuine:
            home = folder / "genuine" / "try"
            shutil.rmtree(home, ignore_errors=True)
            shutil.copytree(PATCH / "try", home)
            (home / "Cargo.lock").unlink()
            manifest = home / "Cargo.toml"
            text = re.sub(r"\[patch\..*?(?=\n\[dependencies\])", "", manifest.read_text(), flags=re.S)
            manifest.write_text(text)
    else:
        home = tokio_suites.prepare(folder, package, genuine)
    status, messages, stderr = tokio_suites.cargo(folder, home, genuine, ["build", kind, name])
    if status != 0:
        sys.exit(stderr)
    return next(m["executable"] for m in messages if m.get("executable") and m["target"]["name"] == name)


@contextlib.contextmanager
def running(command, world, **options):
    """A program, until the end of the block."""
    environment = dict(os.environ, DUALITY_WORLD=world, RUST_LOG="off")
    with subprocess.Popen(command, env=environment, text=True, **options) as process:
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def is_open(port):
    """Waits until a server on this machine listens."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    sys.exit(f"port {port}: no server; see what its program prints")


def h2spec(tool, shop, world):
    """The counts of h2spec, and the titles of failed cases."""
    with running([shop], world, stdout=subprocess.PIPE) as server:
        port = server.stdout.readline().rsplit(":", 1)[1].strip()
        command = [tool, "--port", port, "--path", "/stock", "--timeout", "5"]
        output = subprocess.run(command, capture_output=True, text=True, timeout=900).stdout
    counts = re.search(r"(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed", output)
    failed = re.findall(r"^ +(×.*)$", output.split("Failures:")[0], re.M)
    return counts[0] if counts else output[-500:], failed


def autobahn(folder, tool, world, mode, example):
    """The number of cases for each behaviour, and the cases that failed."""
    reports = folder / "autobahn" / f"{mode}-{world}"
    shutil.rmtree(reports, ignore_errors=True)
    spec = {"outdir": str(reports), "cases": ["*"], "exclude-cases": [], "exclude-agent-cases": {}}
    if mode == "fuzzingclient":
        spec["servers"] = [{"agent": "Tungstenite", "url": f"ws://127.0.0.1:{SERVER}"}]
    else:
        spec["url"] = f"ws://127.0.0.1:{CLIENT}"
    path = folder / f"{mode}.json"
    path.write_text(json.dumps(spec))
    tester = [tool, "--mode", mode, "--spec", str(path), "--webport", "0"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    if mode == "fuzzingclient":
        with running([example], world, **quiet):
            is_open(SERVER)
            subprocess.run(tester, check=True, timeout=1800, **quiet)
    else:
        with running(tester, world, **quiet):
            is_open(CLIENT)
            environment = dict(os.environ, DUALITY_WORLD=world)
            subprocess.run([example], check=True, timeout=1800, env=environment, **quiet)
    cases = json.loads((reports / "index.json").read_text())["Tungstenite"]
    counts = collections.Counter(case["behavior"] for case in cases.values())
    failed = [f"{name}: {case['behavior']}" for name, case in cases.items() if case["behavior"] == "FAILED"]
    return ", ".join(f"{counts[kind]} {kind}" for kind in sorted(counts)), failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--h2spec", metavar="PATH")
    parser.add_argument("--wstest", metavar="PATH")
    parser.add_argument("--worlds", default=",".join([*WORLDS, "tokio"]))
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    for world in arguments.worlds.split(","):
        runs = {}
        if arguments.h2spec:
            shop = program(folder, world, "try", "--bin", "shop")
            runs["h2spec"] = lambda: h2spec(arguments.h2spec, shop, world)
        if arguments.wstest:
            for mode, name in (("fuzzingclient", "autobahn-server"), ("fuzzingserver", "autobahn-client")):
                example = program(folder, world, "tokio-tungstenite", "--example", name)
                runs[mode] = lambda m=mode, e=example: autobahn(folder, arguments.wstest, world, m, e)
        for name, run in runs.items():
            counts, failed = run()
            print(f"| {name} | {world} | {counts} |", flush=True)
            for case in failed:
                print(f"  {case}")


if __name__ == "__main__":
    main()
