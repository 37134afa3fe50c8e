#!/usr/bin/env python3
"""Compares the figures of `duality` with those of wrk, ab and h2load, for one server.

    python3 scripts/generators.py [ARCHITECTURE:keep|close:CONNECTIONS ...]        default: three loads, about six minutes

Every generator loads the same `duality serve http` on processor 0 from processor 1, in turn, five
rounds of three seconds. Then `duality compare` measures the same architecture in slices, and in
windows of three seconds. The script prints medians with the least and the greatest. With
`epoll:keep` the load generator is the limit, so the rates differ by the cost of each generator.
With `fork:close` the server is the limit, and the rates must agree. Needs target/release/duality,
and wrk, ab and h2load if they take part (Debian: wrk, apache2-utils, nghttp2-client).
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
LOADS = ["epoll:keep:20", "epoll:keep:200", "fork:close:20"]
TICK = 1 / os.sysconf("SC_CLK_TCK")


def server(architecture):
    """A server on processor 0, and its URL."""
    command = [DUALITY, "serve", "http", "--architecture", architecture, "--listen", "127.0.0.1:0", "--cpus", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    address = re.search(r"listening on (\S+)", process.stdout.readline()).group(1)
    return process, f"http://{address}/"


def cpu(pid):
    """The seconds of processor time of a process and its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return TICK * sum(map(int, fields[11:15]))


def microseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * UNITS[unit]


def wrk(url, count, close):
    header = ["-H", "Connection: close"] if close else []
    out = run(["wrk", "-t1", f"-c{count}", f"-d{SECONDS}s", "--latency", *header, url])
    return (int(re.search(r"(\d+) requests in", out).group(1)), float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)),
            microseconds(re.search(r"50%\s+(\S+)", out).group(1)), microseconds(re.search(r"99%\s+(\S+)", out).group(1)))


def ab(url, count, close):
    out = run(["ab", "-q", *([] if close else ["-k"]), "-c", str(count), "-t", str(SECONDS), "-n", "10000000", url])
    # The latencies of ab are whole milliseconds.
    return (int(re.search(r"Complete requests:\s+(\d+)", out).group(1)),
            float(re.search(r"Requests per second:\s+([\d.]+)", out).group(1)), None, None)


def h2load(url, count, close):
    if close:
        return None
    out = run(["h2load", "--h1", "-t1", f"-c{count}", "-D", str(SECONDS), url])
    return (int(re.search(r"requests: (\d+) total", out).group(1)),
            float(re.search(r"([\d.]+) req/s", out).group(1)), None, None)


def load(url, count, close):
    out = json.loads(run([DUALITY, "load", url, "-c", str(count), "-d", f"{SECONDS}s", "--warm-up", "0s", "--json",
                          *(["--close"] if close else [])]))
    latency = out["latency_us"]
    return out["requests"], out["requests_per_second"], latency["p50"], latency["p99"]


def run(command):
    return subprocess.run(["taskset", "-c", "1", *command], check=True, capture_output=True, text=True).stdout


def compared(architecture, count, close, *more):
    """The result of `duality compare`: requests/s and processor time for a request, one value for
    each slice or window."""
    with tempfile.TemporaryDirectory() as home:
        out = Path(home) / "out"
        command = [DUALITY, "compare", "http", "--architectures", f"{architecture},threads", "--concurrency", str(count),
                   "--no-control", "--out", str(out), *(["--close"] if close else []), *more]
        subprocess.run(command, check=True, capture_output=True)
        lines = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    slices = [one for line in lines for one in line.get("slices", []) if one["architecture"] == architecture]
    if slices:
        return ([one["requests_per_second"] for one in slices], [one["server_cpu_us"] / one["requests"] for one in slices],
                None, None)
    cells = [line for line in lines if line.get("architecture") == architecture]
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
    for one in sys.argv[1:] or LOADS:
        architecture, kind, count = one.split(":")
        count, close = int(count), kind == "close"
        print(f"\n| {architecture}, {kind}, {count} connections | requests/s | server CPU us/request | p50 us | p99 us |")
        print("| --- | --- | --- | --- | --- |")
        found = {name: [] for name, _ in generators}
        process, url = server(architecture)
        for number in range(ROUNDS):
            for name, generator in generators[number % 2 * 2 - 1:] + generators[:number % 2 * 2 - 1]:
                before = cpu(process.pid)
                measured = generator(url, count, close)
                if measured is None:
                    continue
                requests, rate, p50, p99 = measured
                time.sleep(0.05)
                found[name].append((rate, 1e6 * (cpu(process.pid) - before) / requests, p50, p99))
        process.terminate()
        process.wait()
        for name, values in found.items():
            if values:
                row(name, *zip(*values))
        row("`compare`, slices", *compared(architecture, count, close, "--budget", "20s"))
        row("`compare`, windows of 3 s", *compared(architecture, count, close, "--blocks", "0", "--window", f"{SECONDS}s", "--repeats", "5"))


if __name__ == "__main__":
    main()
