"""Compares the costs of servers that `duality cc` or `duality c++` converted with the native
programs of the same objects.

    python3 scripts/converted.py NATIVE CONVERTED                   folders with programs of the same names
    python3 scripts/converted.py NATIVE CONVERTED --only httpd,3proxy --rounds 5 --clients 1000

SERVERS below lists the known programs. The script leaves out programs that are in no folder. Both
programs take turns, and all servers have a round before one has its next. After --minutes no round
begins, except for servers that have had none. A ratio above LIMIT has a mark. If other programs use
the processors meanwhile, the last line says "busy machine". The table has medians of the rounds:

processor time   of the server, user and kernel, for each request (from /proc: 10 ms steps)
memory           resident memory of its own, page tables, and 16 KiB for each kernel thread, with all
                 clients connected and idle
"""

import argparse
import os
import socket
import ssl
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "run"))

import clients
import servers
from processes import family, usage

REQUEST = b"GET /index.html HTTP/1.1\r\nHost: x\r\n\r\n"


def settled(root):
    """The usage of a server that has become idle."""
    before, deadline = usage(root), time.monotonic() + 20
    while time.monotonic() < deadline:
        time.sleep(0.3)
        now = usage(root)
        if now == before:
            break
        before = now
    return before


def connected(port, number):
    connection = socket.socket()
    connection.settimeout(60)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.bind((f"127.0.0.{2 + number // 500}", 0))
    connection.connect(("127.0.0.1", port))
    return connection


def ask(connection, request, complete):
    connection.sendall(request)
    answer = bytearray()
    while complete(answer, False) is None:
        data = connection.recv(1 << 16)
        if not data:
            if complete(answer, True) is None:
                raise clients.Failure(f"closed after {bytes(answer[-200:])!r}")
            break
        answer += data
    return bytes(answer)


class Kind:
    """The protocol between clients and a server.

    begin(connection, backend)   after the connection; returns what is talked to from then on
    request, complete            a request, and when its answer is whole
    kept                         whether a connection has more than one request
    holds                        what each answer has in it
    """

    def __init__(self, request, complete, kept=True, begin=lambda connection, backend: connection, holds=b""):
        self.request, self.complete, self.kept, self.begin, self.holds = request, complete, kept, begin, holds

    def exchange(self, connection):
        answer = ask(connection, self.request, self.complete)
        if self.holds not in answer:
            raise clients.Failure(f"an answer is wrong: {answer[-200:]!r}")


def socks(connection, backend):
    ask(connection, b"\x05\x01\x00", clients.exactly(2))
    ask(connection, b"\x05\x01\x00\x01\x7f\x00\x00\x01" + backend.to_bytes(2, "big"), clients.exactly(10))
    return connection


def secure(connection, backend):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(connection)


ECHO = Kind(b"a line of an echo server\n", clients.line, holds=b"a line of an echo server\n")
PAGE = Kind(REQUEST, clients.http)


# Thrift's own test: a call that returns, and one that throws.
def thrift_message(kind, name, body):
    return struct.pack(">I", 0x80010000 | kind) + thrift_string(name) + struct.pack(">I", 7) + body + b"\0"


def thrift_string(text):
    return struct.pack(">I", len(text)) + text


def thrift_field(kind, number, value):
    return struct.pack(">BH", kind, number) + value


CALL, REPLY, I32, TEXT, STRUCT = 1, 2, 8, 11, 12
THROWN = thrift_field(I32, 1, struct.pack(">I", 1001)) + thrift_field(TEXT, 2, thrift_string(b"Xception")) + b"\0"
ANSWERS = (thrift_message(REPLY, b"testString", thrift_field(TEXT, 0, thrift_string(b"a text")))
           + thrift_message(REPLY, b"testException", thrift_field(STRUCT, 1, THROWN)))
THRIFT = Kind(thrift_message(CALL, b"testString", thrift_field(TEXT, 1, thrift_string(b"a text")))
              + thrift_message(CALL, b"testException", thrift_field(TEXT, 1, thrift_string(b"Xception"))),
              clients.exactly(len(ANSWERS)), holds=ANSWERS)


def through_proxy(connection, backend):
    ask(connection, b"CONNECT 127.0.0.1:%d HTTP/1.0\r\n\r\n" % backend, clients.ends_with(b"\r\n\r\n"))
    return connection


def stunnel(folder, port, count, backend):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{folder}/key", "-out", f"{folder}/cert",
                    "-days", "2", "-subj", "/CN=x"], check=True, stderr=subprocess.DEVNULL)
    text = f"foreground = yes\npid =\ndebug = 3\n[x]\naccept = 127.0.0.1:{port}\nconnect = 127.0.0.1:{backend}\ncert = {folder}/cert\nkey = {folder}/key\n"
    return ["stunnel", servers.write(folder, "stunnel.conf", text)]


def proxy3(folder, port, count, backend):
    text = f"maxconn {servers.allowed(count)}\nauth none\ntimeouts 1 5 300 300 300 1800 15 60\nallow *\nsocks -i127.0.0.1 -p{port}\n"
    return ["3proxy", servers.write(folder, "3proxy.cfg", text)]


def pound(folder, port, count, backend):
    text = (f"WorkerMinCount {count + 16}\nWorkerMaxCount {servers.allowed(count)}\nTimeout 300\nClient 300\nListenHTTP\n Address 127.0.0.1\n Port {port}\n"
            f" Service\n  Backend\n   Address 127.0.0.1\n   Port {backend}\n  End\n End\nEnd\n")
    return ["pound", "-F", "-f", servers.write(folder, "pound.cfg", text), "-p", f"{folder}/pid"]


def known(command):
    return lambda folder, port, count, backend: command(folder, port, count)


# The command, the clients, and whether it needs a server behind it.
SERVERS = {
    "stdio_echo": (lambda folder, port, count, backend: ["stdio_echo", str(port)], ECHO, False),
    "prethreaded": (lambda folder, port, count, backend: ["prethreaded", str(port), str(count)], ECHO, False),
    "server": (lambda folder, port, count, backend: ["server", str(port), servers.site(folder)], PAGE, False),
    "httpd": (lambda folder, port, count, backend: ["httpd"], Kind(b"GET /index.html HTTP/1.0\r\n\r\n", clients.http, kept=False), False),
    "civetweb": (known(servers.civetweb), PAGE, False),
    "microsocks": (lambda folder, port, count, backend: ["microsocks", "-i", "127.0.0.1", "-p", str(port)], Kind(REQUEST, clients.http, begin=socks), True),
    "tinyproxy": (known(servers.tinyproxy), Kind(REQUEST, clients.http, begin=through_proxy), True),
    "3proxy": (proxy3, Kind(REQUEST, clients.http, begin=socks), True),
    "pound": (pound, PAGE, True),
    "stunnel": (stunnel, Kind(REQUEST, clients.http, begin=secure), True),
    "embedded_cpp": (lambda folder, port, count, backend: ["embedded_cpp"], Kind(b"GET /example HTTP/1.0\r\n\r\n", clients.http, kept=False, holds=b"<h2>This is an example text from a C++ handler</h2>"), False),
    "server_http_ex": (lambda folder, port, count, backend: ["server_http_ex"], Kind(REQUEST, clients.http, kept=False, holds=b"path = /index.html"), False),
    "server_iostream_ex": (lambda folder, port, count, backend: ["server_iostream_ex"], Kind(b"a line\n", clients.line, holds=b"A LINE\n"), False),
    "httplib": (lambda folder, port, count, backend: ["httplib", str(port)], Kind(REQUEST, clients.http, holds=b"x" * 1024), False),
    "mhd": (lambda folder, port, count, backend: ["mhd", str(port)], Kind(REQUEST, clients.http, holds=b"x" * 1024), False),
    "my-project-exe": (lambda folder, port, count, backend: ["my-project-exe"], Kind(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", clients.http, holds=b"Hello World!"), False),
    "tcpechosvr": (lambda folder, port, count, backend: ["tcpechosvr", str(port)], ECHO, False),
    "TestServer": (lambda folder, port, count, backend: ["TestServer", f"--port={port}", "--server-type=threaded"], THRIFT, False),
}


def free_port():
    """A port that the kernel gives to no client. Otherwise a client that waits for the port could
    be connected to itself."""
    while True:
        with socket.socket() as first, socket.socket() as trial:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1] % 20000 + 10000
            try:
                trial.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def wait_for_port(port, process):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise clients.Failure(f"it ended with {process.returncode} before it served")
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
    raise clients.Failure("it does not listen")


def talk(port, backend, kind, count, requests):
    """Makes connections and their requests. Returns the idle connections and the number of
    requests."""
    asked, idle = 0, []
    if not kind.kept:
        for number in range(requests):
            with connected(port, number % count) as connection:
                kind.exchange(kind.begin(connection, backend))
            asked += 1
        return [connected(port, number) for number in range(count)], asked
    for number in range(count):
        connection = kind.begin(connected(port, number), backend)
        kind.exchange(connection)
        idle.append(connection)
        asked += 1
    while asked < requests:
        for connection in idle:
            kind.exchange(connection)
        asked += len(idle)
    return idle, asked


def serve(name, programs, options):
    """Microseconds of processor time for a request, and MiB of memory."""
    command, kind, needs_backend = SERVERS[name]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        servers.site(folder)
        os.symlink("site", os.path.join(folder, "htdocs"))
        port, backend, behind = free_port(), free_port(), None
        if needs_backend:
            behind = subprocess.Popen(servers.knot_like(options.native, backend, options.clients)[:1] + [str(backend), servers.site(folder)])
        try:
            if behind:
                wait_for_port(backend, behind)
            words = command(folder, port, options.clients, backend)
            log = open(os.path.join(folder, "log"), "w+")
            # SIGPIPE stays ignored: a client that leaves would end some servers.
            process = subprocess.Popen([os.path.join(os.path.abspath(programs), words[0]), *words[1:]], cwd=folder, stdin=subprocess.DEVNULL, restore_signals=False,
                                       stdout=log, stderr=log, env=dict(os.environ, PORT=str(port)))
            try:
                wait_for_port(port, process)
                before = settled(process.pid)
                idle, asked = talk(port, backend, kind, options.clients, options.requests)
                after = settled(process.pid)
                for connection in idle:
                    connection.close()
            except (clients.Failure, OSError) as failure:
                log.seek(0)
                raise clients.Failure(f"{name} of {programs}: {failure}\n{log.read()[-600:]}") from failure
            finally:
                for member in family(process.pid) if process.poll() is None else []:
                    os.kill(member, 9)
                process.wait()
        finally:
            if behind:
                behind.kill()
                behind.wait()
    return (after[0] - before[0]) * 1e6 / asked, after[1] / 1024


# A converted program should not need more time or memory than this, beside the native program.
LIMIT = 1.05


def ratio(converted, native):
    value = converted / native if native else float("inf")
    return f"{value:6.2f}{'!' if value > LIMIT else ' '}"


def report(chosen, rounds):
    """The table, with the medians of all rounds."""
    print(f"{'server':18} {'rounds':>6} {'native us':>9} {'us':>7} {'ratio':>6}    {'MiB':>6} {'MiB':>6} {'ratio':>6}")
    for name in chosen:
        if not rounds[name]:
            continue
        (native, memory), (time, own) = [[statistics.median(part) for part in zip(*way)] for way in zip(*rounds[name])]
        print(f"{name:18} {len(rounds[name]):6} {native:9.1f} {time:7.1f} {ratio(time, native)}   {memory:6.1f} {own:6.1f} {ratio(own, memory)}")


def others_since(before):
    """The share of the processors that other processes have used. `before` is an earlier result of
    processor_times."""
    busy, idle, own = [now - then for now, then in zip(processor_times(), before)]
    return max(0.0, busy - own) / max(busy + idle, 1e-9)


def processor_times():
    """Seconds in which the machine was busy, in which it was idle, and which this script and its
    ended children have used."""
    with open("/proc/stat") as file:
        user, nice, system, idle, wait, *rest = [int(word) / os.sysconf("SC_CLK_TCK") for word in file.readline().split()[1:9]]
    return user + nice + system + sum(rest), idle + wait, sum(os.times()[:4])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("native")
    parser.add_argument("converted")
    parser.add_argument("--only", help="names of servers, with commas")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=5000, help="to each server in a round, at least")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=9)
    options = parser.parse_args()
    clients.raise_limits()
    folders = (options.native, options.converted)
    chosen, rounds, failed = [], {}, False
    for name in options.only.split(",") if options.only else SERVERS:
        if all(os.path.exists(os.path.join(folder, name)) for folder in folders):
            chosen.append(name)
            rounds[name] = []
        else:
            print(f"{name:18} is not in both folders")
    end, before = time.monotonic() + 60 * options.minutes, processor_times()
    for number in range(options.rounds):
        for name in list(chosen):
            if number > 0 and time.monotonic() > end:
                continue
            # Neither program always comes first.
            order = folders if number % 2 == 0 else folders[::-1]
            try:
                measured = {folder: serve(name, folder, options) for folder in order}
            except clients.Failure as failure:
                print(failure, flush=True)
                chosen.remove(name)
                failed = True
                continue
            rounds[name].append([measured[folder] for folder in folders])
    report(chosen, rounds)
    share = others_since(before)
    if share > 0.1:
        print(f"busy machine: other programs used {share:.0%} of the processors")
    sys.exit(failed)


main()
