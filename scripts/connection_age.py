#!/usr/bin/env python3
"""Measures the server CPU time of an exchange of two bytes, for several numbers of exchanges on a
connection.

    python3 scripts/connection_age.py PAIRS      # renewed after every 100 exchanges, and never, in turns

The server (echo under iterative) is on processor 0, the client on processor 1; both sleep between two exchanges. Needs
target/release/duality and two processors.
"""

import os
import re
import signal
import socket
import subprocess
import sys

DUALITY = os.path.join(os.environ.get("CARGO_TARGET_DIR", "target"), "release/duality")
EXCHANGES = 20_000


def cpu_us(pid):
    """Processor time of a process in microseconds, as the scheduler counts it."""
    tasks = f"/proc/{pid}/task"
    return sum(int(open(f"{tasks}/{task}/schedstat").read().split()[0]) for task in os.listdir(tasks)) / 1000


def measure(renew):
    """Microseconds of server CPU for an exchange; `renew` is the number of exchanges on a
    connection; 0 means all."""
    command = [DUALITY, "serve", "echo", "-a", "iterative", "--listen", "127.0.0.1:0", "--cpus", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    port = int(re.search(r":(\d+)", server.stdout.readline()).group(1))

    def connect():
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    connection = connect()
    before = cpu_us(server.pid)
    for number in range(EXCHANGES):
        if renew and number % renew == 0:
            connection.close()
            connection = connect()
        connection.send(b"x\n")
        assert connection.recv(10)
    used = cpu_us(server.pid) - before
    connection.close()
    server.send_signal(signal.SIGTERM)
    server.wait()
    return used / EXCHANGES


def main():
    os.sched_setaffinity(0, {1})
    for _ in range(int(sys.argv[1])):
        print(f"renewed {measure(100):.1f} us, not renewed {measure(0):.1f} us", flush=True)


if __name__ == "__main__":
    main()
