#!/usr/bin/env python3
"""What is acknowledged is kept: kill -9 of the server, or of its store, under load.

    python3 docs/crash.py server [ARCHITECTURE …] [--kills 20] [--store sqlite|redis]
        The phone service under 16 clients that add entries; its process (with its children) is killed
        with SIGKILL and started again, --kills times. Then every acknowledged entry is looked up.

    python3 docs/crash.py store [ARCHITECTURE …] [--kills 5]
        The guestbook on a real redis-server (appendfsync always) under 16 clients that sign it; Redis is
        killed with SIGKILL and started again, --kills times, and the guestbook never. Then every
        acknowledged remark is looked for in Redis.

Prints a line for each architecture: requests acknowledged, refused (ERROR or 503), cut off (the
connection broke before a reply), acknowledged but lost, wrong. Exits with 1 if any was lost or wrong, or
if the service did not recover. Needs target/release/duality and, for Redis, redis-server.
"""
import argparse, os, random, socket, subprocess, sys, tempfile, threading, time

DUALITY = os.path.join(os.path.dirname(__file__), "..", "target", "release", "duality")
CLIENTS = 16


def free_port():
    """A port that the kernel gives to no client: while the victim is away, a client that calls at an
    ephemeral one may be connected to itself, and then the port is taken."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as limits:
        ephemeral = int(limits.read().split()[0])
    while True:
        port = random.randrange(2048, ephemeral)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Wrong(Exception):
    """A reply that the protocol does not have."""


class Redis:
    def __init__(self, directory):
        self.directory, self.port = directory, free_port()
        self.start()

    def start(self):
        while True:
            self.process = subprocess.Popen(
                ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--save", "",
                 "--appendonly", "yes", "--appendfsync", "always", "--dir", self.directory],
                stdout=subprocess.DEVNULL)
            while self.process.poll() is None:
                try:
                    if self.command("PING") == b"+PONG\r\n":
                        return
                except OSError:
                    pass
                time.sleep(0.01)
            time.sleep(0.05)

    def command(self, line):
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as stream:
            stream.sendall(line.encode() + b"\r\nQUIT\r\n")
            reply = b""
            while piece := stream.recv(1 << 16):
                reply += piece
            return reply.removesuffix(b"+OK\r\n")

    def kill(self):
        self.process.kill()
        self.process.wait()


class Server:
    def __init__(self, service, architecture, store):
        self.arguments = [DUALITY, "serve", service, "-a", architecture, "--store", store, "--listen"]
        self.port = free_port()
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.arguments + [f"127.0.0.1:{self.port}"], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        if not self.process.stdout.readline().startswith(b"listening on"):
            sys.exit(f"the server did not start: {self.process.stderr.read().decode()}")
        # What it says later is not read, but must not stop it either.
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def kill(self):
        self.process.kill()
        self.process.wait()


class Clients:
    """Threads that make one request after the other, and count what became of each."""

    def __init__(self, port, request):
        self.port, self.request, self.stopped = port, request, False
        self.acknowledged, self.refused, self.cut, self.wrong = [], 0, 0, []
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.run, args=(n,), daemon=True) for n in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        count, stream = 0, None
        while not self.stopped:
            name = f"c{number}e{count}"
            count += 1
            try:
                if stream is None:
                    stream = socket.create_connection(("127.0.0.1", self.port), timeout=20)
                    reader = stream.makefile("rb")
                kept, stays = self.request(stream, reader, name)
                with self.lock:
                    if kept:
                        self.acknowledged.append(name)
                    else:
                        self.refused += 1
                if not stays:
                    stream = None
            except Wrong as wrong:
                self.wrong.append(wrong)
                return
            except (OSError, EOFError):
                stream = None
                with self.lock:
                    self.cut += 1
                time.sleep(0.005)

    def stop(self):
        self.stopped = True
        for thread in self.threads:
            thread.join()


def add_entry(stream, reader, name):
    stream.sendall(f"ADD {name} 12345\n".encode())
    reply = reader.readline()
    if reply == f"ADDED {name} 12345\n".encode():
        return True, True
    if reply.startswith(b"ERROR the store"):
        return False, True
    if not reply.endswith(b"\n"):
        raise EOFError
    raise Wrong(reply)


def sign(stream, reader, name):
    form = f"guest-name={name}&guest-remarks=hello"
    stream.sendall((f"POST /guestbook HTTP/1.1\r\nHost: test\r\nContent-Length: {len(form)}\r\n"
                    "Content-Type: application/x-www-form-urlencoded\r\n\r\n" + form).encode())
    status, length, stays = reader.readline(), 0, True
    while (line := reader.readline()) not in (b"\r\n", b""):
        field, _, value = line.decode().partition(":")
        if field.lower() == "content-length":
            length = int(value)
        if field.lower() == "connection" and "close" in value:
            stays = False
    if not status or line == b"" or len(reader.read(length)) < length:
        raise EOFError
    if status.startswith(b"HTTP/1.1 303 "):
        return True, stays
    if status.startswith(b"HTTP/1.1 503 "):
        return False, stays
    raise Wrong(status)


def crash(architecture, arguments):
    with tempfile.TemporaryDirectory() as directory:
        redis = None
        if arguments.victim == "store" or arguments.store == "redis":
            redis = Redis(directory)
        store = f"redis://127.0.0.1:{redis.port}" if redis else f"sqlite:{directory}/phone.sqlite"
        service = "guestbook" if arguments.victim == "store" else "phone"
        server = Server(service, architecture, store)
        victim = redis if arguments.victim == "store" else server
        clients = Clients(server.port, sign if service == "guestbook" else add_entry)
        for _ in range(arguments.kills):
            before = len(clients.acknowledged)
            deadline = time.monotonic() + 20
            while len(clients.acknowledged) < before + 50:
                if time.monotonic() > deadline:
                    sys.exit(f"{architecture}: the service did not recover within 20 s")
                time.sleep(0.01)
            time.sleep(random.uniform(0, 0.2))
            victim.kill()
            if victim is redis:
                time.sleep(0.3)
            victim.start()
        clients.stop()
        lost = missing(service, server, redis, clients.acknowledged)
        server.kill()
        if redis:
            redis.kill()
        print(f"{architecture:<10} {arguments.kills} kills: {len(clients.acknowledged)} acknowledged, "
              f"{clients.refused} refused, {clients.cut} cut off, {lost} acknowledged but lost, "
              f"{len(clients.wrong)} wrong {clients.wrong or ''}", flush=True)
        return lost or clients.wrong


def missing(service, server, redis, acknowledged):
    if service == "guestbook":
        # As crates/services/src/store/redis has it: the name's length, a colon, the name, the text.
        kept = set(redis.command("LRANGE duality:remarks 0 -1").split(b"\r\n"))
        return sum(f"{len(name)}:{name}hello".encode() not in kept for name in acknowledged)
    lost = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as stream:
        reader = stream.makefile("rb")
        for name in acknowledged:
            stream.sendall(f"FIND {name}\n".encode())
            lost += reader.readline() != f"FOUND {name} 12345\n".encode()
    return lost


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("victim", choices=["server", "store"])
    parser.add_argument("architectures", nargs="*", default=[])
    parser.add_argument("--kills", type=int)
    parser.add_argument("--store", choices=["sqlite", "redis"], default="sqlite")
    arguments = parser.parse_args()
    arguments.kills = arguments.kills or (20 if arguments.victim == "server" else 5)
    architectures = arguments.architectures or ["prefork", "threads", "uthreads", "epoll"]
    sys.exit(any([crash(architecture, arguments) for architecture in architectures]))


main()
