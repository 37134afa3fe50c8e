#!/usr/bin/env python3
"""One chat on three servers: members check every delivery while one of the servers is killed.

    scripts/chat_across.py [--server target/release/duality] [--members 200] [--deliveries 1000000] [--no-kill]
                           [--architectures epoll,threads,uthreads]

The script starts a redis-server and three servers of different architectures, and lets `duality
load` make the deliveries. After half of the deliveries, the script kills the second server (kill
-9). The load generator checks that every member receives every line of the others once, and that
all members receive all lines in one order. The script exits with 1 if anything is wrong, or if
members of the other two servers were lost.
"""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time

VICTIM = 1
LOSSES = {"reset", "closed-early"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", default="target/release/duality")
    parser.add_argument("--members", type=int, default=200)
    parser.add_argument("--deliveries", type=int, default=1_000_000)
    parser.add_argument("--architectures", default="epoll,threads,uthreads")
    parser.add_argument("--no-kill", action="store_true", help="let all three servers live")
    arguments = parser.parse_args()
    started = []
    try:
        with tempfile.TemporaryDirectory() as directory:
            return run(arguments, started, directory)
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def run(arguments, started, directory):
    redis = start_redis(started, directory)
    architectures = arguments.architectures.split(",")
    servers = [start_server(arguments.server, architecture, redis, started) for architecture in architectures]
    at_the_victim = 0 if arguments.no_kill else len(range(VICTIM, arguments.members, len(servers)))
    # Each lost member is one request that fails.
    asked = arguments.deliveries + at_the_victim
    target = "chat://" + ",".join(address for _, address in servers)
    command = [arguments.server, "load", "--json", "-c", str(arguments.members), "-n", str(asked), target]
    load = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    started.append(load)
    begun = time.monotonic()
    if at_the_victim:
        # A member joins by one message. All other members receive a line.
        half = arguments.members + arguments.deliveries / 2 / (arguments.members - 1) / lines_of_a_message(arguments)
        while published(redis) < half and load.poll() is None:
            time.sleep(0.01)
        servers[VICTIM][0].kill()
    report = json.loads(load.communicate()[0])
    seconds = time.monotonic() - begun
    errors = report["errors"]
    print(f"deliveries, each checked: {report['requests']:,}")
    print(f"failed requests: {errors or 'none'}; members of the killed server: {at_the_victim}")
    print(f"time: {seconds:.1f} s; messages in Redis: {published(redis):,}")
    good = report["requests"] >= arguments.deliveries and set(errors) <= LOSSES
    good = good and sum(errors.values()) == at_the_victim
    print("all is well" if good else f"wrong: {json.dumps(report['warnings'])}")
    return 0 if good else 1


def lines_of_a_message(arguments):
    """As many lines as a member says in a round of 64 KiB."""
    return max(1, 64 * 1024 // 30 // arguments.members)


def start_redis(started, directory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--dir", directory]
    started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))
    for _ in range(500):
        try:
            if ask(port, "PING") == "+PONG\r\n":
                return port
        except OSError:
            time.sleep(0.02)
    sys.exit("redis-server does not answer")


def start_server(program, architecture, redis, started):
    command = [program, "serve", "chat", "--architecture", architecture, "--listen", "127.0.0.1:0"]
    command += ["--store", f"redis://127.0.0.1:{redis}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    started.append(server)
    return server, server.stdout.readline().strip().removeprefix("listening on ")


def published(redis):
    """The number of published messages."""
    for line in ask(redis, "INFO commandstats").splitlines():
        if line.startswith("cmdstat_publish:calls="):
            return int(line.split("=")[1].split(",")[0])
    return 0


def ask(port, command):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
        stream.sendall(f"{command}\r\n".encode())
        stream.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: stream.recv(65536), b"")).decode()


if __name__ == "__main__":
    sys.exit(main())
