#!/usr/bin/env python3
"""Measures the server CPU time per request of Duality's architectures and of peers, in alternating
runs under wrk.

    python3 scripts/versus.py epoll,uthreads,st,nginx CONNECTIONS HOW REPEATS SECONDS

HOW is `keep` or `close`; `keep+tls` and `close+tls` ask by TLS 1.3 with AES-128-GCM and a P-256 key, which needs a
build with `--features rustls`. `keep+100000` asks for a page of so many bytes. Only nginx and architectures do both.

Peers are nginx, and st, pth and pthreads, which `cargo xtask peers` builds. Flags of `duality
serve` may follow an architecture: epoll:--busy-poll=25us. Needs target/release/duality, wrk, and
the named peers. `duality compare --peers` does the same by its own load generator: this script is
the second opinion of one that is not ours. The server runs on processor 0, wrk on processor 1. The ratios are to the last
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
  server {{ listen 127.0.0.1:18080 {ssl} backlog=4096; root {home}; {certificate} }}
}}
"""


SSL = """ssl_certificate {home}/cert.pem; ssl_certificate_key {home}/key.pem; ssl_protocols TLSv1.3;"""
# Confines the client, so that both servers use the same cipher.
CLIENT = """
openssl_conf = own
[own]
ssl_conf = ssl
[ssl]
system_default = defaults
[defaults]
MinProtocol = TLSv1.3
Ciphersuites = TLS_AES_128_GCM_SHA256
"""


class How:
    """How clients ask, and the files that this takes."""

    def __init__(self, words, home):
        first, *more = words.split("+")
        self.close, self.tls = first == "close", "tls" in more
        sizes = [word for word in more if word != "tls"]
        self.path = "page" if sizes else ""
        self.environment = None
        if sizes:
            with open(f"{home}/page", "wb") as page:
                page.write(bytes(int(sizes[0])))
        if self.tls:
            made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost"
            made = [*made.split(), "-keyout", f"{home}/key.pem", "-out", f"{home}/cert.pem"]
            subprocess.run(made, check=True, stderr=subprocess.DEVNULL)
            with open(f"{home}/openssl.cnf", "w") as file:
                file.write(CLIENT)
            self.environment = {**os.environ, "OPENSSL_CONF": f"{home}/openssl.cnf"}

    def url(self, address):
        return f"http{'s' if self.tls else ''}://{address}/{self.path}"


def cpu_us(pid):
    """Processor time of a process and its living children, by their CPU clocks (clock_getcpuclockid(3))."""
    children = open(f"/proc/{pid}/task/{pid}/children").read().split()
    return sum(time.clock_gettime_ns((~int(p) << 3) | 2) for p in [pid, *children]) / 1000


def start(name, how, home):
    if name == "nginx":
        secure = dict(ssl="ssl", certificate=SSL.format(home=home)) if how.tls else dict(ssl="", certificate="")
        with open(f"{home}/nginx.conf", "w") as conf:
            conf.write(NGINX.format(home=home, **secure))
        command = ["taskset", "-c", "0", "nginx", "-c", f"{home}/nginx.conf", "-p", home]
        server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        while subprocess.run(["curl", "-sk", "-o", f"{home}/x", how.url("127.0.0.1:18080")]).returncode:
            pass
        return server, "127.0.0.1:18080"
    if name in BUILT:
        command = ["taskset", "-c", "0", f"{TARGET}/peers/http_{name}", "--listen", "127.0.0.1:0"]
    else:
        architecture, *flags = name.split(":")
        command = [DUALITY, "serve", "http", "-a", architecture, "--listen", "127.0.0.1:0", "--cpus", "0", *flags]
        if how.path:
            command += ["--root", home]
        if how.tls:
            command += ["--tls-cert", f"{home}/cert.pem", "--tls-key", f"{home}/key.pem"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    return server, server.stdout.readline().split()[2]


def measure(name, connections, how, seconds, home):
    """Returns requests/s and server CPU time per request in microseconds."""
    server, address = start(name, how, home)
    wrk = ["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", how.url(address)]
    if how.close:
        wrk += ["-H", "Connection: close"]
    subprocess.run([*wrk, "-d1s"], stdout=subprocess.DEVNULL, check=True, env=how.environment)
    before = cpu_us(server.pid)
    asked = subprocess.run(
        [*wrk, f"-d{seconds}s"], capture_output=True, text=True, check=True, env=how.environment
    )
    told = asked.stdout
    used = cpu_us(server.pid) - before
    server.send_signal(signal.SIGTERM)
    server.wait()
    assert "Non-2xx" not in told, told
    requests = int(re.search(r"(\d+) requests in", told).group(1))
    return float(re.search(r"Requests/sec:\s+([\d.]+)", told).group(1)), used / requests


def main():
    names, connections = sys.argv[1].split(","), int(sys.argv[2])
    repeats, seconds = int(sys.argv[4]), int(sys.argv[5])
    runs = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as home:
        subprocess.run(["chmod", "755", home], check=True)
        shutil.copy("crates/services/demo/index.html", home)
        how = How(sys.argv[3], home)
        for _ in range(repeats):
            for name in names:
                runs[name].append(measure(name, connections, how, seconds, home))
    for name in names:
        cost = sorted(run[1] for run in runs[name])
        ratios = sorted(a[1] / b[1] for a, b in zip(runs[name], runs[names[-1]]))
        rate = statistics.median(run[0] for run in runs[name])
        print(f"{name:10} {statistics.median(cost):6.2f} us/request [{cost[0]:.2f} to {cost[-1]:.2f}]"
              f"  ratio {statistics.median(ratios):.2f} [{ratios[0]:.2f} to {ratios[-1]:.2f}]  {rate:.0f} req/s")


main()
