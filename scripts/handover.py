#!/usr/bin/env python3
"""Restarts a server under load, and checks that no connection is refused, reset or left without a
reply.

    scripts/handover.py [--server target/release/duality] [--requests 100000] [--restarts 10] [--architecture epoll]

The script does the work of a service manager. It listens, and starts each server with its socket
(LISTEN_FDS). `duality load` opens a connection for each request. Every --pause seconds the next
server starts, and then the old server gets SIGTERM. Each server must end by itself with exit code
0. The load must end without an error, after the last restart.

With --next ARCHITECTURE, every second server has that architecture.
"""

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time


def start(options, listener, architecture):
    script = 'exec 3<&0 </dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$0" "$@"'
    command = ["sh", "-c", script, options.server, "serve", "http", "--architecture", architecture]
    server = subprocess.Popen(command, stdin=listener, stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    if not line.startswith("listening on "):
        sys.exit(f"the server did not start: {line!r}")
    return server


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="target/release/duality")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--restarts", type=int, default=10)
    parser.add_argument("--pause", type=float, default=0.5)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--architecture", default="epoll")
    parser.add_argument("--next")
    options = parser.parse_args()
    options.server = os.path.abspath(options.server)
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    host, port = listener.getsockname()
    server = start(options, listener, options.architecture)
    load = [options.server, "load", f"http://{host}:{port}/", "--close", "--json"]
    load += ["-c", str(options.connections), "-n", str(options.requests)]
    client = subprocess.Popen(load, stdout=subprocess.PIPE, text=True)
    done = 0
    while done < options.restarts:
        time.sleep(options.pause)
        if client.poll() is not None:
            sys.exit(f"FAILED: the load ended after {done} restarts: give it more --requests")
        architecture = options.next if options.next and done % 2 == 0 else options.architecture
        following = start(options, listener, architecture)
        server.send_signal(signal.SIGTERM)
        if server.wait(timeout=60) != 0:
            sys.exit(f"FAILED: server {done + 1} ended with {server.returncode}")
        server, done = following, done + 1
    report = json.loads(client.communicate(timeout=1200)[0])
    server.send_signal(signal.SIGTERM)
    last = server.wait(timeout=60)
    # The report's `requests` leaves out the requests of the warm-up.
    requests, errors = report["connections_opened"], report["errors"]
    print(f"{done} restarts, {requests} requests in {report['window_seconds']:.1f} s, errors {errors}")
    if last != 0 or errors or requests != options.requests:
        sys.exit("FAILED")


if __name__ == "__main__":
    main()
