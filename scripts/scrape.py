#!/usr/bin/env python3
"""Measures the cost of metrics: processor time of a request with and without --metrics, and with a
scrape each second.

    scripts/scrape.py [--server target/release/duality] [--seconds 4] [--rounds 8] [--architecture epoll]

Three servers of http run at once: plain, with --metrics, and with --metrics and a scrape each
second. `duality load` loads them in turn, in mirrored order. The script prints the medians of the
servers' processor time for a request, and of the ratios to the plain server of the same round, with
the least and the greatest.

Give each side a processor: --server-cpu 0 --client-cpu 1.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import threading
import urllib.request

KINDS = ["plain", "metrics", "scraped"]


class Server:
    def __init__(self, options, kind):
        command = ["taskset", "-c", options.server_cpu, options.server, "serve", "http", "--listen=0"]
        command += ["--architecture", options.architecture]
        command += [] if kind == "plain" else ["--metrics=0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[-1]
        self.metrics = None if kind == "plain" else re.search(r"http\S+", self.process.stderr.readline())[0]
        self.scrapes = 0

    def processor_time(self):
        """The nanoseconds of all kernel threads of the server."""
        folder = f"/proc/{self.process.pid}/task"
        total = 0
        for thread in os.listdir(folder):
            with open(f"{folder}/{thread}/schedstat") as stat:
                total += int(stat.read().split()[0])
        return total

    def scrape_until(self, over):
        while True:
            urllib.request.urlopen(self.metrics, timeout=10).read()
            self.scrapes += 1
            if over.wait(1):
                return


def measure(options, server, kind):
    load = ["taskset", "-c", options.client_cpu, options.server, "load", f"http://{server.address}/", "--json"]
    load += ["-c", str(options.connections), "-d", f"{options.seconds}s"]
    over = threading.Event()
    scraper = threading.Thread(target=server.scrape_until, args=[over])
    if kind == "scraped":
        scraper.start()
    before = server.processor_time()
    ran = subprocess.run(load, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    used = server.processor_time() - before
    over.set()
    if kind == "scraped":
        scraper.join()
    report = json.loads(ran.stdout)
    if report["errors"]:
        sys.exit(f"{kind}: {report['errors']}")
    return used / 1e3 / report["requests"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="target/release/duality")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--architecture", default="epoll")
    parser.add_argument("--server-cpu", default="0")
    parser.add_argument("--client-cpu", default="1")
    options = parser.parse_args()
    servers = {kind: Server(options, kind) for kind in KINDS}
    times = {kind: [] for kind in KINDS}
    for number in range(options.rounds):
        for kind in KINDS if number % 2 == 0 else reversed(KINDS):
            times[kind].append(measure(options, servers[kind], kind))
    for kind in KINDS:
        ratios = [one / plain for one, plain in zip(times[kind], times["plain"])]
        print(
            f"{kind}: {statistics.median(times[kind]):.2f} us a request, {statistics.median(ratios):.3f} of plain"
            f" [{min(ratios):.3f} to {max(ratios):.3f}], {servers[kind].scrapes} scrapes"
        )
    for server in servers.values():
        server.process.terminate()
        server.process.wait()


if __name__ == "__main__":
    main()
