#!/usr/bin/env python3
"""Load on memcached: nine reads to each write, on several connections, and every reply is checked.

    examples/load/memcached.py PORT [CONNECTIONS [REQUESTS]]

Prints the figures that `duality compare --load-command` reads:

    duality compare --binary "memcached -u nobody -p {port} -t 4" \\
        --load-command "examples/load/memcached.py {port} {connections}" -c 10,100
"""

import selectors
import socket
import sys
import time

VALUE = b"x" * 100
KEYS = 100
GET_REPLY = b"VALUE key%02d 0 100\r\n" + VALUE + b"\r\nEND\r\n"


class Connection:
    """A connection with one request under way."""

    def __init__(self, port, number):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.count = number
        self.received = b""

    def ask(self):
        self.count += 1
        key = self.count % KEYS
        if self.count % 10:
            self.expected = GET_REPLY % key
            request = b"get key%02d\r\n" % key
        else:
            self.expected = b"STORED\r\n"
            request = b"set key%02d 0 0 100\r\n" % key + VALUE + b"\r\n"
        self.began = time.perf_counter()
        self.socket.sendall(request)

    def hear(self):
        """True once the reply is complete. Anything but the expected reply ends the program."""
        part = self.socket.recv(4096)
        self.received += part
        if not part or not self.expected.startswith(self.received):
            sys.exit(f"a wrong reply: {self.received[:60]!r}")
        if self.received != self.expected:
            return False
        self.received = b""
        return True


def fill(port):
    connection = Connection(port, 0)
    for key in range(KEYS):
        connection.socket.sendall(b"set key%02d 0 0 100\r\n" % key + VALUE + b"\r\n")
    wanted = len(b"STORED\r\n") * KEYS
    while wanted > 0:
        part = connection.socket.recv(wanted)
        if not part:
            sys.exit("the server closed the connection")
        wanted -= len(part)


def main():
    port = int(sys.argv[1])
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10
    requests = int(sys.argv[3]) if len(sys.argv) > 3 else 20000
    fill(port)
    selector = selectors.DefaultSelector()
    connections = [Connection(port, 7 * number) for number in range(count)]
    for connection in connections:
        selector.register(connection.socket, selectors.EVENT_READ, connection)
    begun = time.perf_counter()
    for connection in connections:
        connection.ask()
    sent, latencies = count, []
    while len(latencies) < requests:
        for key, _ in selector.select():
            connection = key.data
            if not connection.hear():
                continue
            latencies.append(time.perf_counter() - connection.began)
            if sent < requests:
                sent += 1
                connection.ask()
    seconds = time.perf_counter() - begun
    latencies.sort()
    print("requests", len(latencies))
    print("seconds", round(seconds, 6))
    print("mean_us", round(1e6 * sum(latencies) / len(latencies), 1))
    for name, share in [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p99.9_us", 0.999)]:
        print(name, round(1e6 * latencies[int(share * len(latencies))], 1))
    print("max_us", round(1e6 * latencies[-1], 1))


main()
