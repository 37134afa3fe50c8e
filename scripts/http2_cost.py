#!/usr/bin/env python3
"""Measures what HTTP/2 costs beside HTTP/1.1: an application's processor time a request.

    scripts/http2_cost.py target/release/examples/shop /catalogue --rounds 12

The application is made by `duality_tokio::App`, and its own `load` loads it. Each client makes one
request at a time. The application has processor 0, the load has processor 1, and protocols and
members take turns. `duality compare` cannot do this: it asks all servers by one protocol.
"""
import argparse
import statistics

from patched import measure

MEMBERS = ["tokio-per-core", "epoll", "uring"]
PROTOCOLS = ["http", "h2c"]


def told(values):
    return f"{statistics.median(values):.2f} [{min(values):.2f} to {max(values):.2f}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("application")
    parser.add_argument("page")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=1)
    arguments = parser.parse_args()
    rounds = []
    for _ in range(arguments.rounds):
        costs = {}
        for member in MEMBERS:
            command = [arguments.application, "serve", "-a", member, "--listen", "127.0.0.1:0"]
            for protocol in PROTOCOLS:
                target = f"{protocol}://{{address}}{arguments.page}"
                options = (arguments.connections, arguments.seconds)
                costs[member, protocol] = measure(command, target, *options, loader=arguments.application)
        rounds.append(costs)
    print("| member | HTTP/1.1, µs | HTTP/2, µs | HTTP/2 to HTTP/1.1 | HTTP/2, to tokio-per-core |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for member in MEMBERS:
        one, two = (statistics.median(costs[member, protocol] for costs in rounds) for protocol in PROTOCOLS)
        dearer = told([costs[member, "h2c"] / costs[member, "http"] for costs in rounds])
        beside = told([costs[member, "h2c"] / costs[MEMBERS[0], "h2c"] for costs in rounds])
        print(f"| {member} | {one:.1f} | {two:.1f} | {dearer} | {beside} |")


if __name__ == "__main__":
    main()
