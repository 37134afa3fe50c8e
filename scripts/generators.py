#!/usr/bin/env python3
"""Compares the figures of `duality` with those of wrk, ab and h2load, for one server.

    python3 scripts/generators.py [CONNECTIONS ...]        default: 20 200; about three minutes

Every generator loads the same `duality serve http --architecture epoll` on processor 0 from processor 1, in turn, five rounds of
three seconds. Then `duality compare` measures the same architecture in slices, and in one long window. Printed are medians over
the rounds, with the least and the greatest. Needs target/release/duality, and wrk, ab and h2load where they are to be compared
(Debian: wrk, apache2-utils, nghttp2-client).
"""

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DUALITY = os.environ.get("DUALITY") or str(Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "duality")
ROUNDS, SECONDS = 5, 3
UNITS = {"us": 1, "ms": 1e3, "s": 1e6}


def server():
    """A server on processor 0, and its URL."""
    command = [DUALITY, "serve", "http", "--architecture", "epoll", "--listen", "127.0.0.1:0", "--cpus", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    address = re.search(r"listening on (\S+)", process.stdout.readline()).group(1)
    return process, f"http://{address}/"


def cpu(pid):
    """Seconds of processor time that a process has used, from its run queue's statistics."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9


def microseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * UNITS[unit]


def wrk(url, count):
    out = run(["wrk", "-t1", f"-c{count}", f"-d{SECONDS}s", "--latency", url])
    return (int(re.search(r"(\d+) requests in", out).group(1)), float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)),
            microseconds(re.search(r"50%\s+(\S+)", out).group(1)), microseconds(re.search(r"99%\s+(\S+)", out).group(1)))


def ab(url, count):
    out = run(["ab", "-q", "-k", "-c", str(count), "-t", str(SECONDS), "-n", "10000000", url])
    # Its latencies are whole milliseconds.
    return (int(re.search(r"Complete requests:\s+(\d+)", out).group(1)),
            float(re.search(r"Requests per second:\s+([\d.]+)", out).group(1)), None, None)


def h2load(url, count):
    out = run(["h2load", "--h1", "-t1", f"-c{count}", "-D", str(SECONDS), url])
    return (int(re.search(r"requests: (\d+) total", out).group(1)),
            float(re.search(r"([\d.]+) req/s", out).group(1)), None, None)


def load(url, count):
    out = json.loads(run([DUALITY, "load", url, "-c", str(count), "-d", f"{SECONDS}s", "--warm-up", "0s", "--json"]))
    latency = out["latency_us"]
    return out["requests"], out["requests_per_second"], latency["p50"], latency["p99"]


def run(command):
    return subprocess.run(["taskset", "-c", "1", *command], check=True, capture_output=True, text=True).stdout


def compared(count, *more):
    """What `duality compare` finds of epoll: requests/s and processor time for a request, one value for each slice or window."""
    with tempfile.TemporaryDirectory() as home:
        out = Path(home) / "out"
        command = [DUALITY, "compare", "http", "--architectures", "epoll,uring", "--concurrency", str(count), "--no-control",
                   "--out", str(out), *more]
        subprocess.run(command, check=True, capture_output=True)
        lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    slices = [one for line in lines for one in line.get("slices", []) if one["subject"] == "epoll"]
    if slices:
        return ([one["requests_per_second"] for one in slices], [one["server_cpu_us"] / one["requests"] for one in slices],
                None, None)
    cells = [line for line in lines if line.get("subject") == "epoll"]
    return ([one["requests_per_second"] for one in cells], [one["server_cpu_us_per_request"] for one in cells],
            [one["latency_us"]["p50"] for one in cells], [one["latency_us"]["p99"] for one in cells])


def told(values):
    values = [value for value in values or [] if value is not None]
    if not values:
        return ""
    digits = 0 if values[0] > 1000 else 2
    return f"{statistics.median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def row(name, rate, used, p50, p99):
    print(f"| {name} | {told(rate)} | {told(used)} | {told(p50)} | {told(p99)} |", flush=True)


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        return
    generators = [(name, one) for name, one in (("wrk", wrk), ("ab", ab), ("h2load", h2load)) if shutil.which(name)]
    generators.append(("duality load", load))
    for count in map(int, sys.argv[1:] or ["20", "200"]):
        print(f"\n| {count} connections | requests/s | server CPU us/request | p50 us | p99 us |")
        print("| --- | --- | --- | --- | --- |")
        found = {name: [] for name, _ in generators}
        process, url = server()
        for number in range(ROUNDS):
            for name, generator in generators[number % 2 * 2 - 1:] + generators[:number % 2 * 2 - 1]:
                before = cpu(process.pid)
                requests, rate, p50, p99 = generator(url, count)
                time.sleep(0.05)
                found[name].append((rate, 1e6 * (cpu(process.pid) - before) / requests, p50, p99))
        process.terminate()
        process.wait()
        for name, values in found.items():
            row(name, *zip(*values))
        row("`compare`, slices", *compared(count, "--budget", "20s"))
        row("`compare`, windows of 3 s", *compared(count, "--blocks", "0", "--window", f"{SECONDS}s", "--repeats", "5"))


if __name__ == "__main__":
    main()
