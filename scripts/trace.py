#!/usr/bin/env python3
"""Measures how fast `duality trace from` reads a log of a million lines, in each format.

    cargo build --release && python3 scripts/trace.py [--lines N] [--program PATH] [FORMAT…]

Prints, for each format, the processor time for each megabyte, the megabytes of a second of it, the
peak memory, and the bytes of a request in the trace. docs/trace.md has the figures.
"""

import argparse
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

CLIENTS = 20_000


def requests(lines):
    """Requests at 100 a second, each of a random client: the time, the client and the request."""
    chance = random.Random(1)
    at = 1_795_593_284.0
    for number in range(lines):
        at += chance.expovariate(100)
        client = chance.randrange(CLIENTS)
        yield number, at, client, int(2 ** chance.uniform(6, 18))


def combined(lines, to):
    for _, at, client, size in requests(lines):
        stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(at))
        address = f"10.0.{client >> 8}.{client & 255}"
        to.write(
            f'{address} - - [{stamp}] "GET /pages/{size % 997}.html HTTP/1.1" 200 {size} '
            f'"https://example.org/" "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101"\n'.encode()
        )


def nginx(lines, to):
    counts = [0] * CLIENTS
    for _, at, client, size in requests(lines):
        counts[client] += 1
        to.write(
            f'{{"ts":{at:.3f},"rt":0.002,"conn":{client},"n":{counts[client]},"m":"GET",'
            f'"u":"/pages/{size % 997}.html","s":200,"b":{size},"p":"HTTP/1.1","rtt":"130"}}\n'.encode()
        )


def caddy(lines, to):
    for _, at, client, size in requests(lines):
        to.write(
            json.dumps(
                {
                    "level": "info",
                    "ts": at,
                    "msg": "handled request",
                    "request": {
                        "remote_ip": f"10.0.{client >> 8}.{client & 255}",
                        "remote_port": "41342",
                        "proto": "HTTP/1.1",
                        "method": "GET",
                        "uri": f"/pages/{size % 997}.html",
                        "headers": {"User-Agent": ["Mozilla/5.0 (X11; Linux x86_64)"]},
                    },
                    "duration": 0.002,
                    "size": size,
                    "status": 200,
                }
            ).encode()
            + b"\n"
        )


def alb(lines, to):
    for _, at, client, size in requests(lines):
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1e6):06}Z"
        address = f"10.0.{client >> 8}.{client & 255}:{1024 + client}"
        to.write(
            f"https {stamp} app/my-balancer/50dc6c495c0c9188 {address} 192.0.2.1:80 0.000 0.002 0.000 "
            f'200 200 34 {size} "GET https://example.org:443/pages/{size % 997}.html HTTP/1.1" "Mozilla/5.0 '
            f'(X11; Linux x86_64)" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:targetgroup/a/1\n'.encode()
        )


def haproxy(lines, to):
    for _, at, client, size in requests(lines):
        stamp = f"{time.strftime('%d/%b/%Y:%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1e3):03}"
        address = f"10.0.{client >> 8}.{client & 255}:{1024 + client}"
        to.write(
            f"Feb  6 12:14:14 localhost haproxy[14389]: {address} [{stamp}] http-in static/srv1 0/0/0/2/2 200 "
            f'{size} - - ---- 1/1/1/1/0 0/0 {{}} {{}} "GET /pages/{size % 997}.html HTTP/1.1"\n'.encode()
        )


def iis(lines, to):
    to.write(b"#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) "
             b"cs(Referer) sc-status sc-substatus sc-win32-status sc-bytes time-taken\n")
    for _, at, client, size in requests(lines):
        stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
        to.write(
            f"{stamp} 192.0.2.1 GET /pages/{size % 997}.html - 80 - 10.0.{client >> 8}.{client & 255} "
            f"Mozilla/5.0+(X11;+Linux+x86_64) - 200 0 0 {size} 2\n".encode()
        )


def traefik(lines, to):
    for _, at, client, size in requests(lines):
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1e6):06}Z"
        to.write(
            json.dumps(
                {
                    "ClientAddr": f"10.0.{client >> 8}.{client & 255}:{1024 + client}",
                    "ClientHost": f"10.0.{client >> 8}.{client & 255}",
                    "DownstreamContentSize": size,
                    "DownstreamStatus": 200,
                    "Duration": 2_000_000,
                    "RequestMethod": "GET",
                    "RequestPath": f"/pages/{size % 997}.html",
                    "RequestProtocol": "HTTP/1.1",
                    "StartUTC": stamp,
                    "level": "info",
                    "msg": "",
                    "time": stamp,
                }
            ).encode()
            + b"\n"
        )


def har(lines, to):
    to.write(b'{"log":{"version":"1.2","entries":[')
    for number, at, _, size in requests(lines):
        stamp = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1e3):03}Z"
        entry = {
            "startedDateTime": stamp,
            "time": 2.0,
            "connection": str(number % 6),
            "request": {
                "method": "GET",
                "url": f"https://example.org/pages/{size % 997}.html",
                "httpVersion": "HTTP/1.1",
                "headers": [{"name": "User-Agent", "value": "Mozilla/5.0 (X11; Linux x86_64)"}],
                "headersSize": 120,
                "bodySize": 0,
            },
            "response": {
                "status": 200,
                "httpVersion": "HTTP/1.1",
                "headers": [{"name": "Content-Type", "value": "text/html"}],
                "content": {"size": size, "mimeType": "text/html"},
                "headersSize": 150,
                "bodySize": size,
            },
            "timings": {"send": 0, "wait": 1.5, "receive": 0.5},
        }
        to.write((b"," if number else b"") + json.dumps(entry).encode())
    to.write(b"]}}")


def pcap(lines, to):
    """Two packets for each request: the client's segment, and a reply of one segment."""
    to.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 128, 101))
    sent = [[1, 1] for _ in range(CLIENTS)]
    for _, at, client, size in requests(lines):
        ends = (bytes([10, 0, client >> 8, client & 255]), bytes([192, 0, 2, 1]))
        ports = (1024 + client, 80)
        for way, (length, late) in enumerate([(300, 0.0), (min(size, 60_000), 0.002)]):
            moment = at + late
            tcp = struct.pack(
                ">HHIIBBHHH", ports[way], ports[1 - way], sent[client][way], 0, 5 << 4, 0x18, 999, 0, 0
            )
            sent[client][way] = (sent[client][way] + length) % (1 << 32)
            address = (ends[way], ends[1 - way])
            ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40 + length, 0, 0, 64, 6, 0, *address)
            head = struct.pack("<IIII", int(moment), int(moment % 1 * 1e6), 40, 40 + length)
            to.write(head + ip + tcp)


FORMATS = {
    "combined": combined,
    "alb": alb,
    "haproxy": haproxy,
    "iis": iis,
    "nginx": nginx,
    "caddy": caddy,
    "traefik": traefik,
    "har": har,
    "pcap": pcap,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--program", default="target/release/duality")
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join(FORMATS))
    arguments = parser.parse_args()
    print(f"{arguments.lines} requests; {arguments.program}")
    unknown = [name for name in arguments.formats if name not in FORMATS]
    if unknown:
        parser.error(f"there is no format {unknown[0]}: choose from {', '.join(FORMATS)}")
    print(f"{'format':10}{'log':>10}{'a MB':>12}{'speed':>12}{'memory':>10}{'a request':>12}")
    with tempfile.TemporaryDirectory() as folder:
        log, trace = os.path.join(folder, "log"), os.path.join(folder, "trace")
        for name in arguments.formats or FORMATS:
            write = FORMATS[name]
            with open(log, "wb") as to:
                write(arguments.lines, to)
            child = subprocess.Popen(
                [arguments.program, "trace", "from", log, "-o", trace],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            _, status, usage = os.wait4(child.pid, 0)
            took, size = usage.ru_utime + usage.ru_stime, os.path.getsize(log) / 1e6
            if status != 0:
                sys.exit(f"{name}: exit status {status}")
            print(
                f"{name:10}{size:>7.0f} MB{1000 * took / size:>9.1f} ms{size / took:>7.0f} MB/s"
                f"{usage.ru_maxrss / 1e3:>7.0f} MB{os.path.getsize(trace) / arguments.lines:>10.1f} B"
            )


if __name__ == "__main__":
    main()
