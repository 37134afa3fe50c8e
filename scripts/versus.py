#!/usr/bin/env python3
"""Measures the server CPU time per request of Duality's architectures and of peers, in alternating
runs under wrk.

    python3 scripts/versus.py epoll,uthreads,st,nginx CONNECTIONS keep|close REPEATS SECONDS

Peers are nginx, and st, pth and pthreads, which `cargo xtask peers` builds. Flags of `duality
serve` may follow an architecture: epoll:--busy-poll=25us. Needs target/release/duality, wrk, and
the named peers. The server runs on processor 0, wrk on processor 1. The ratios are to the last
name, run by run.
"""

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

TARGET = os.environ.get("CARGO_TARGET_DIR", "target")
DUALITY = os.environ.get("DUALITY") or f"{TARGET}/release/duality"
BUILT = {"st", "pth", "pthreads"}
NGINX = """
worker_processes 1; daemon off; pid {home}/pid; error_log {home}/error.log warn;
events {{ worker_connections 16384; multi_accept on; }}
http {{
  access_log off; sendfile on; tcp_nopush on; tcp_nodelay on; types {{ text/html html; }}
  keepalive_requests 100000000; open_file_cache max=1000 inactive=20s; open_file_cache_valid 30s;
  client_body_temp_path {home}/b; proxy_temp_path {home}/p; fastcgi_temp_path {home}/f;
  uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;
  server {{ listen 127.0.0.1:18080 backlog=4096; root {home}; }}
}}
"""


def cpu_us(pid):
    """Processor time of a process and its living children, by their CPU clocks (clock_getcpuclockid(3))."""
    children = open(f"/proc/{pid}/task/{pid}/children").read().split()
    return sum(time.clock_gettime_ns((~int(p) << 3) | 2) for p in [pid, *children]) / 1000


def start(name, home):
    if name == "nginx":
        shutil.copy("crates/services/demo/index.html", home)
        with open(f"{home}/nginx.conf", "w") as conf:
            conf.write(NGINX.format(home=home))
        command = ["taskset", "-c", "0", "nginx", "-c", f"{home}/nginx.conf", "-p", home]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while subprocess.run(["curl", "-s", "-o", f"{home}/x", "http://127.0.0.1:18080/"]).returncode:
            pass
        return server, "127.0.0.1:18080"
    if name in BUILT:
        command = ["taskset", "-c", "0", f"{TARGET}/peers/http_{name}", "--listen", "127.0.0.1:0"]
    else:
        architecture, *flags = name.split(":")
        command = [DUALITY, "serve", "http", "-a", architecture, "--listen", "127.0.0.1:0", "--cpus", "0", *flags]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return server, server.stdout.readline().split()[2]


def measure(name, connections, close, seconds, home):
    """Returns requests/s and server CPU time per request in microseconds."""
    server, address = start(name, home)
    wrk = ["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", f"http://{address}/"]
    if close:
        wrk += ["-H", "Connection: close"]
    subprocess.run([*wrk, "-d1s"], stdout=subprocess.DEVNULL, check=True)
    before = cpu_us(server.pid)
    told = subprocess.run([*wrk, f"-d{seconds}s"], capture_output=True, text=True, check=True).stdout
    used = cpu_us(server.pid) - before
    server.send_signal(signal.SIGTERM)
    server.wait()
    assert "Non-2xx" not in told, told
    requests = int(re.search(r"(\d+) requests in", told).group(1))
    return float(re.search(r"Requests/sec:\s+([\d.]+)", told).group(1)), used / requests


def main():
    names, connections = sys.argv[1].split(","), int(sys.argv[2])
    close, repeats, seconds = sys.argv[3] == "close", int(sys.argv[4]), int(sys.argv[5])
    runs = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as home:
        subprocess.run(["chmod", "755", home], check=True)
        for _ in range(repeats):
            for name in names:
                runs[name].append(measure(name, connections, close, seconds, home))
    for name in names:
        cost = sorted(run[1] for run in runs[name])
        ratios = sorted(a[1] / b[1] for a, b in zip(runs[name], runs[names[-1]]))
        rate = statistics.median(run[0] for run in runs[name])
        print(f"{name:10} {statistics.median(cost):6.2f} us/request [{cost[0]:.2f} to {cost[-1]:.2f}]"
              f"  ratio {statistics.median(ratios):.2f} [{ratios[0]:.2f} to {ratios[-1]:.2f}]  {rate:.0f} req/s")


main()
