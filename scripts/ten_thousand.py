#!/usr/bin/env python3
"""Opens 10,000 connections at once, uses each twice, and prints the memory of each.

    python3 scripts/ten_thousand.py ARCHITECTURE…

Flags of `duality serve` may follow an architecture: uthreads:--poller=epoll. Needs
target/release/duality and 20,000 descriptors.
"""

import os
import resource
import signal
import socket
import subprocess
import sys
import time

DUALITY = "target/release/duality"
COUNT = 10_000
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def kernel_kib():
    fields = {line.split(":")[0]: int(line.split()[1]) for line in open("/proc/meminfo")}
    return fields["KernelStack"] + fields["PageTables"] + fields["Slab"]


def own_bytes(pid):
    """The memory that the process shares with no other process: heap, stacks, tables."""
    lines = open(f"/proc/{pid}/smaps_rollup")
    return next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:")) * 1024


def ask(stream):
    """Returns the body of 305 bytes."""
    stream.sendall(REQUEST)
    reply = b""
    while len(reply.partition(b"\r\n\r\n")[2]) < 305:
        piece = stream.recv(4096)
        assert piece, "the connection ended"
        reply += piece
    return reply.partition(b"\r\n\r\n")[2]


def measure(name):
    architecture, *flags = name.split(":")
    command = [DUALITY, "serve", "http", "-a", architecture, "--listen", "127.0.0.1:0", "--cpus", "0", *flags]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    host, port = server.stdout.readline().split()[2].split(":")
    with socket.create_connection((host, int(port))) as stream:
        page = ask(stream)
    own, kernel, begin = own_bytes(server.pid), kernel_kib(), time.time()
    streams = [socket.create_connection((host, int(port)), timeout=60) for _ in range(COUNT)]
    served = [sum(ask(stream) == page for stream in streams) for _ in range(2)]
    seconds = time.time() - begin
    own, kernel = own_bytes(server.pid) - own, kernel_kib() - kernel
    for stream in streams:
        stream.close()
    server.send_signal(signal.SIGTERM)
    print(f"{name:9} served {served[0]} and again {served[1]} of {COUNT} in {seconds:.1f} s; "
          f"server {own / COUNT:.0f} bytes, kernel {kernel / COUNT:.1f} KiB a connection; exit {server.wait()}")


resource.setrlimit(resource.RLIMIT_NOFILE, (20_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
os.sched_setaffinity(0, {1})
for name in sys.argv[1:]:
    measure(name)
