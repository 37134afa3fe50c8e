#!/usr/bin/env python3
"""Tests replies under TCP memory pressure, to clients that have ended their side, for each poller.

    cargo build --release && sudo python3 scripts/memory_pressure.py [--duality PATH] [--seconds 12] [POLLER …]

Slow readers of another server hold the kernel's TCP memory at its limit (net.ipv4.tcp_mem): each asks for a long file and
reads nothing. Meanwhile four clients ask for a file of 65,537 bytes, end their side (a FIN), and read the reply to its
end, again and again. A server that misses a wake stops answering until its own time-out, 30 s later.

The script lowers the limit of the whole machine for the run, and restores it afterwards: run it as
root. The traffic stays on the loopback of a separate network namespace (unshare(1), ip(8)). Under
this pressure the kernel breaks off some connections. The exit code is 1 if a poller gave no reply,
or if a reply took longer than 5 s.
"""

import argparse
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

LIMITS = "/proc/sys/net/ipv4/tcp_mem"
LONG, SHORT = "long", "short"
SHORT_SIZE = 65_537
STALL = 5.0
# The pages of memory that TCP may have beyond its pages at the beginning of the run.
PAGES = 20_000


def serve(duality, root, *arguments):
    """Starts a server of the files in `root`. Returns the process and its port."""
    command = [duality, "serve", "http", "--listen=127.0.0.1:0", f"--root={root}", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    found = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)", line.strip())
    if not found:
        sys.exit(f"memory_pressure: {' '.join(command)} does not serve: {line!r}")
    return process, int(found[1])


def used_pages():
    """The pages that TCP has now."""
    with open("/proc/net/sockstat") as file:
        return int(re.search(r"^TCP:.* mem (\d+)", file.read(), re.M)[1])


def hog(port, most):
    """Opens readers that read nothing until TCP has all the memory that it may have."""
    hogs = []
    while used_pages() < most and len(hogs) < 4_000:
        reader = socket.create_connection(("127.0.0.1", port))
        reader.sendall(f"GET /{LONG} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        hogs.append(reader)
    return hogs


def ask(port):
    """Makes one request, and half-closes the connection after it. Returns the bytes of the reply,
    and its time."""
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(f"GET /{SHORT} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        client.shutdown(socket.SHUT_WR)
        count = 0
        while part := client.recv(65_536):
            count += len(part)
    return count, time.monotonic() - start


def load(port, seconds):
    """Runs four clients. Returns the number of whole replies, the number of other replies, and the
    time of each."""
    end, whole, broken, times = time.monotonic() + seconds, [], [], []

    def client():
        while time.monotonic() < end:
            try:
                count, took = ask(port)
            except OSError as error:
                broken.append(str(error))
                continue
            times.append(took)
            (whole if count > SHORT_SIZE else broken).append(count)

    clients = [threading.Thread(target=client) for _ in range(4)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    return len(whole), len(broken), times


def measure(arguments, most):
    """Loads each poller in turn while readers hold the memory. Returns whether all pollers answered
    in time."""
    servers, sound = [], True
    with tempfile.TemporaryDirectory() as root:
        for name, size in ((LONG, 1 << 20), (SHORT, SHORT_SIZE)):
            with open(f"{root}/{name}", "wb") as file:
                file.write(os.urandom(size))
        try:
            other, other_port = serve(arguments.duality, root, "--architecture=epoll")
            servers.append(other)
            hogs = hog(other_port, most)
            held = used_pages()
            print(f"{len(hogs)} readers hold {held} of {most} pages")
            if held < most * 9 // 10:
                sys.exit("memory_pressure: the readers did not fill the memory, so there is no pressure")
            for poller in arguments.pollers:
                server, port = serve(arguments.duality, root, f"--architecture={poller}")
                servers.append(server)
                whole, broken, times = load(port, arguments.seconds)
                late = sum(took > STALL for took in times)
                sound = sound and whole > 0 and late == 0
                longest = max(times, default=0.0)
                print(f"{poller:10} {whole:7} replies, {broken} broken off, {late} later than {STALL:.0f} s, "
                      f"the longest {longest:.2f} s", flush=True)
                servers.pop().kill()
                server.wait()
        finally:
            for server in servers:
                server.kill()
    return sound


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--duality", default="target/release/duality")
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--inside", type=int, help=argparse.SUPPRESS)
    parser.add_argument("pollers", nargs="*", default=["select", "poll", "epoll", "uring", "uthreads", "threads"])
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("memory_pressure: lowers net.ipv4.tcp_mem for the run, which takes root: run it by sudo")
    if arguments.inside:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        sys.exit(0 if measure(arguments, arguments.inside) else 1)
    # A signal ends the run by an exception, so that the limit is put back.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with open(LIMITS) as file:
        before = file.read()
    most = used_pages() + PAGES
    try:
        with open(LIMITS, "w") as file:
            file.write(f"{most // 2} {most * 3 // 4} {most}")
        # The limit belongs to the machine, and is not visible within another namespace.
        inside = ["unshare", "--net", sys.executable, *sys.argv, f"--inside={most}"]
        limit = 60 + len(arguments.pollers) * (arguments.seconds + 70)
        sys.exit(subprocess.run(inside, timeout=limit).returncode)
    finally:
        with open(LIMITS, "w") as file:
            file.write(before)


if __name__ == "__main__":
    main()
