#!/usr/bin/env python3
"""Reads back the logs that nginx, Apache, Caddy and Duality write, and replays what was read.

    cargo build --release && python3 scripts/read_back.py [--program PATH]

A browser and wrk ask each server, while `duality record` reads the packets: the truth. The log
becomes a trace, and a server of Duality answers the replay of this trace. Printed are two distances
of Kolmogorov and Smirnov, log beside packets and sent beside planned: of the times between two
requests, in steps of the log's clock, and of the requests that a connection carries. docs/trace.md has the figures.

Needs root, and Debian's packages nginx, apache2, caddy, wrk and chromium.
"""

import argparse
import bisect
import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

FORMAT = (
    'log_format duality escape=json \'{"ts":$msec,"rt":$request_time,"conn":$connection,'
    '"n":$connection_requests,"m":"$request_method","u":"$uri","s":$status,'
    '"b":$body_bytes_sent,"p":"$server_protocol","rtt":"$tcpinfo_rtt"}\';'
)


def nginx(folder, port, log, form):
    """nginx with one worker, and its command."""
    conf = f"{folder}/nginx.conf"
    declared = FORMAT if form == "duality" else ""
    with open(conf, "w") as file:
        file.write(
            f"daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.err;\n"
            f"events {{ }}\nhttp {{ {declared} access_log {log} {form};\n"
            f"server {{ listen 127.0.0.1:{port}; root {folder}/site; }} }}\n"
        )
    return ["nginx", "-c", conf]


def apache(folder, port, log):
    """Apache with Debian's own format of a combined log."""
    conf = f"{folder}/apache.conf"
    modules = "/usr/lib/apache2/modules"
    with open(conf, "w") as file:
        file.write(
            f"LoadModule mpm_event_module {modules}/mod_mpm_event.so\n"
            f"LoadModule authz_core_module {modules}/mod_authz_core.so\n"
            f"ServerRoot {folder}\nServerName localhost\nPidFile {folder}/apache.pid\n"
            f"ErrorLog {folder}/apache.err\nListen 127.0.0.1:{port}\nDocumentRoot {folder}/site\n"
            'LogFormat "%h %l %u %t \\"%r\\" %>s %O \\"%{Referer}i\\" \\"%{User-Agent}i\\"" combined\n'
            f"CustomLog {log} combined\nKeepAliveTimeout 75\nMaxKeepAliveRequests 0\n"
        )
    return ["apache2", "-f", conf, "-DFOREGROUND"]


def caddy(folder, port, log):
    """Caddy with its own log."""
    conf = f"{folder}/Caddyfile"
    with open(conf, "w") as file:
        file.write(
            "{\n admin off\n auto_https off\n}\n"
            f"http://127.0.0.1:{port} {{\n root * {folder}/site\n file_server\n"
            f" log {{\n  output file {log}\n }}\n}}\n"
        )
    return ["caddy", "run", "--config", conf, "--adapter", "caddyfile"]


def duality(program, site, port, log):
    """Our own server."""
    return [program, "serve", "http", "-a", "epoll", "--root", site] + [
        "--listen", f"127.0.0.1:{port}", "--access-log", log,
    ]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def started(command, folder, port):
    """A server that listens."""
    errors = open(f"{folder}/errors", "ab")
    server = subprocess.Popen(command, stdout=errors, stderr=errors)
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return server
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.02)
    sys.exit(f"{command[0]} does not listen: {open(f'{folder}/errors').read()[-500:]}")


def ended(process):
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=30)


def make_site(folder):
    """A page with twelve pictures, and their sizes between 1 and 40 kB."""
    os.makedirs(f"{folder}/site")
    pictures = "".join(f'<img src="/{number}.png">' for number in range(12))
    with open(f"{folder}/site/index.html", "w") as file:
        file.write(f"<!doctype html><title>read back</title>{pictures}")
    for number in range(12):
        with open(f"{folder}/site/{number}.png", "wb") as file:
            file.write(os.urandom(1000 + 3500 * number))
    with open(f"{folder}/think.lua", "w") as file:
        file.write(
            "function delay() return math.random(5, 60) end\n"
            'function request() return wrk.format("GET", "/" .. math.random(0, 11) .. ".png") end\n'
        )


def visit(folder, port, seconds):
    """A browser loads the page three times, beside twenty connections of wrk that think."""
    url = f"http://127.0.0.1:{port}/"
    crowd = subprocess.Popen(
        ["wrk", "-t1", "-c20", f"-d{seconds}s", "-s", f"{folder}/think.lua", url],
        stdout=subprocess.DEVNULL,
    )
    for number in range(3):
        browser = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", url]
        browser.insert(1, f"--user-data-dir={folder}/profile{number}")
        subprocess.run(browser, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
    crowd.wait()


def read_trace(path):
    """The times of the requests, as if replies took no time, and the requests of connections."""
    with gzip.open(path, "rt") as file:
        head = json.loads(file.readline())
        times, carried, at = [], [], 0
        for line in file:
            if line.startswith("sha256"):
                break
            parts = line.split()
            at += int(parts[0].split("@")[0])
            own, count = at, 1
            times.append(own)
            for step in parts[2:]:
                if step.startswith("+"):
                    continue
                own += int(step.split(":")[0])
                times.append(own)
                count += 1
            carried.append(count)
    return head, sorted(time * head["tick_us"] for time in times), carried


def distance(one, other):
    """The distance of Kolmogorov and Smirnov."""
    one, other = sorted(one), sorted(other)
    def share(values, value):
        return bisect.bisect_right(values, value) / len(values)
    return max(abs(share(one, value) - share(other, value)) for value in set(one + other))


def gaps(times, step):
    """The times between two requests, as a clock with this step tells them."""
    times = [time // step for time in times]
    return [after - before for before, after in zip(times, times[1:])]


def told(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout


def replayed(program, folder, trace, seconds):
    """What `duality load` reports of a replay of the trace."""
    site, log, port = f"{folder}/replayed", f"{folder}/replayed.log", free_port()
    told([program, "load", "--trace", trace, "--files", site])
    server = started(duality(program, site, port, log), folder, port)
    # Exit code 1 says that a busy machine answered late. The report is complete.
    report = subprocess.run(
        [program, "load", f"http://127.0.0.1:{port}/", "--trace", trace, "--at", "busiest"]
        + ["-d", f"{seconds}s", "--json"],
        stdout=subprocess.PIPE, check=False,
    )
    ended(server)
    return json.loads(report.stdout)["replayed"]


def one(program, name, command_of, seconds):
    folder = tempfile.mkdtemp(prefix="read-back-")
    os.chmod(folder, 0o755)
    try:
        make_site(folder)
        port, log, truth = free_port(), f"{folder}/access.log", f"{folder}/truth.trace"
        server = started(command_of(folder, port, log), folder, port)
        record = subprocess.Popen(
            [program, "record", "--interface", "lo", "--port", str(port), "-o", truth],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        time.sleep(0.5)
        visit(folder, port, seconds)
        ended(record)
        ended(server)
        trace = f"{folder}/log.trace"
        told([program, "trace", "from", log, "-o", trace])
        _, true_times, true_carried = read_trace(truth)
        head, times, carried = read_trace(trace)
        # Stamps of one second are spread within it, so these gaps are as fine as the true ones.
        step = head["resolution_us"] if head["resolution_us"] < 1_000_000 else 1
        apart = distance(gaps(times, step), gaps(true_times, step))
        replay = replayed(program, folder, trace, max(2, seconds - 2))
        fidelity = replay["fidelity"]
        print(
            f"| {name} | {head['source']} | {head['requests']:,} of {len(true_times):,} "
            f"| {head['connections']} of {len(true_carried)} "
            f"| {apart:.3f} "
            f"| {distance(carried, true_carried):.3f} "
            f"| {fidelity['gaps_distance']:.3f} | {fidelity['requests_distance']:.3f} |",
            flush=True,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", default="target/release/duality")
    parser.add_argument("--seconds", type=int, default=8, help="how long wrk asks each server")
    options = parser.parse_args()
    program = os.path.abspath(options.program)
    print("| server | source | requests | connections | gaps | carried | replay: gaps | carried |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name, command_of in [
        ("nginx", lambda *place: nginx(*place, "combined")),
        ("nginx, JSON", lambda *place: nginx(*place, "duality")),
        ("Apache", apache),
        ("Caddy", caddy),
        ("Duality", lambda folder, port, log: duality(program, f"{folder}/site", port, log)),
    ]:
        one(program, name, command_of, options.seconds)


if __name__ == "__main__":
    main()
