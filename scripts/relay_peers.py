#!/usr/bin/env python3
"""The relay beside nginx, HAProxy and Caddy: what clients see when something goes wrong.

    scripts/relay_peers.py [--duality PATH] [--architecture epoll] [--only TEXT] [SUBJECT ...]

SUBJECT is relay, nginx, haproxy or caddy (Debian's packages); all that are installed by default.
Each trouble has fresh servers on loopback, an upstream of this script, and a bounded time. The
configurations of the peers are their defaults, apart from the upstream and a connection that is
kept to it. The table says how many of the requests failed, or how long nobody was served.
"""

import argparse
import concurrent.futures
import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

SUBJECTS = ["relay", "nginx", "haproxy", "caddy"]
PATIENCE = 90


class Upstream:
    """A server whose replies are decided by the path of a request."""

    def __init__(self, port=0, keeps=True):
        self.keeps, self.open, self.stopped = keeps, 0, False
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def stop(self):
        self.stopped = True
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def serve(self, connection):
        try:
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while not self.stopped and self.answer(connection):
                    pass
        except OSError:
            pass

    def answer(self, connection):
        head = read_head(connection)
        if head is None or self.stopped:
            return False
        head, rest = head
        path = head.split(b" ")[1].decode()
        length = header(head, b"content-length")
        if length:
            wanted = int(length) - len(rest)
            while wanted > 0:
                piece = connection.recv(min(wanted, 1 << 16))
                if not piece:
                    return False
                wanted -= len(piece)
        if path.startswith("/silent"):
            self.open += 1
            try:
                while connection.recv(1 << 16):
                    pass
            finally:
                self.open -= 1
            return False
        if path == "/closes" or not self.keeps:
            return False
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        return True


def read_head(connection):
    """A head and what came with it, or None."""
    head = b""
    while b"\r\n\r\n" not in head:
        piece = connection.recv(1 << 16)
        if not piece:
            return None
        head += piece
    return head.split(b"\r\n\r\n", 1)


def header(head, name):
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


class Subject:
    """A reverse proxy in front of some upstreams."""

    def __init__(self, name, options, ports, most=0):
        self.directory = tempfile.TemporaryDirectory(prefix="relay-peers-")
        self.port = free_port()
        path = self.directory.name
        os.chmod(path, 0o755)
        if name == "relay":
            command = [options.duality, "serve", "relay", f"--listen=127.0.0.1:{self.port}"]
            command += [f"--upstream=127.0.0.1:{port}" for port in ports]
            command += ["--architecture", options.architecture]
            command += [f"--max-connections={most}"] if most else []
        else:
            text = globals()[f"{name}_configuration"](self.port, ports, path, most)
            file = os.path.join(path, "configuration")
            with open(file, "w", encoding="utf-8") as out:
                out.write(text)
            command = {
                "nginx": ["nginx", "-p", path, "-c", file, "-e", os.path.join(path, "error")],
                "haproxy": ["haproxy", "-db", "-f", file],
                "caddy": ["caddy", "run", "--config", file, "--adapter", "caddyfile"],
            }[name]
        environment = {**os.environ, "HOME": path, "XDG_DATA_HOME": path, "XDG_CONFIG_HOME": path}
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        end = time.monotonic() + 20
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                break
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    self.stop()
                    raise SystemExit(f"{name} does not start: {' '.join(command)}") from None
                time.sleep(0.02)

    def drain(self, name):
        """The signal by which this server finishes what it is doing."""
        self.process.send_signal({
            "nginx": signal.SIGQUIT, "haproxy": signal.SIGUSR1, "caddy": signal.SIGINT,
        }.get(name, signal.SIGTERM))

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.directory.cleanup()


def nginx_configuration(port, ports, path, most):
    servers = "".join(f"server 127.0.0.1:{at};" for at in ports)
    # A connection of a client takes two of nginx's.
    return f"""
daemon off; worker_processes 1; pid {path}/pid; error_log {path}/error;
events {{ worker_connections {2 * most + 8 if most else 4096}; }}
http {{
  access_log off; client_body_temp_path {path}/body; proxy_temp_path {path}/proxy;
  fastcgi_temp_path {path}/f; uwsgi_temp_path {path}/u; scgi_temp_path {path}/s;
  upstream behind {{ {servers} keepalive 64; }}
  server {{ listen 127.0.0.1:{port};
    location / {{ proxy_pass http://behind; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_request_buffering off; }} }}
}}
"""


def haproxy_configuration(port, ports, path, most):
    servers = "\n".join(f"  server s{at} 127.0.0.1:{at}" for at in ports)
    return f"""
global
  maxconn {most or 2000}
defaults
  mode http
  option redispatch
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen all
  bind 127.0.0.1:{port}
{servers}
"""


def caddy_configuration(port, ports, path, most):
    del path, most  # Caddy has no limit on connections.
    behind = " ".join(f"127.0.0.1:{at}" for at in ports)
    return f"""
{{
  admin off
  auto_https off
  grace_period 30s
}}
http://:{port} {{
  bind 127.0.0.1
  reverse_proxy {behind}
}}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def ask(port, path="/", limit=5.0):
    """The status of a GET, or 0 if there is none within the limit."""
    try:
        with socket.create_connection(("127.0.0.1", port), limit) as connection:
            connection.settimeout(limit)
            request = f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
            connection.sendall(request.encode())
            line = connection.recv(64)
            return int(line.split(b" ")[1]) if line.startswith(b"HTTP/1.1 ") else 0
    except (OSError, IndexError, ValueError):
        return 0


def begin(port, path):
    connection = socket.create_connection(("127.0.0.1", port), 5)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    return connection


def failed_for(port, seconds, every=0.1):
    """How many of the requests of some seconds failed, as text."""
    end, asked, failed = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        asked += 1
        failed += ask(port) != 200
        time.sleep(every)
    return f"{failed} of {asked}"


def until_served(port, limit):
    """Seconds until a request is answered."""
    begun = time.monotonic()
    while time.monotonic() - begun < limit:
        if ask(port, limit=2.0) == 200:
            return f"{time.monotonic() - begun:.1f} s"
        time.sleep(0.1)
    return f"more than {limit} s"


def slow_replies(name, options):
    """Five silent event streams that time out after 60 s; then others ask for 10 s."""
    upstream = Upstream()
    subject = Subject(name, options, [upstream.port])
    try:
        streams = [begin(subject.port, "/silent") for _ in range(5)]
        time.sleep(58)
        outcome = failed_for(subject.port, 14)
        del streams
        return outcome
    finally:
        subject.stop()
        upstream.stop()


def abandoned(name, options):
    """100 clients leave a silent page, at a limit of 50 connections: until somebody is served."""
    upstream = Upstream()
    subject = Subject(name, options, [upstream.port], most=50)
    try:
        clients = []
        for _ in range(100):
            with contextlib.suppress(OSError):
                clients.append(begin(subject.port, "/silent"))
        time.sleep(2)
        for client in clients:
            client.close()
        return until_served(subject.port, PATIENCE)
    finally:
        subject.stop()
        upstream.stop()


def returned(name, options):
    """The only upstream is away for 40 s, while clients ask; then until somebody is served."""
    upstream = Upstream()
    subject = Subject(name, options, [upstream.port])
    try:
        ask(subject.port)
        upstream.stop()
        failed_for(subject.port, 40, every=0.5)
        upstream = Upstream(upstream.port)
        return until_served(subject.port, PATIENCE)
    finally:
        subject.stop()
        upstream.stop()


def one_refuses(name, options):
    """One of two upstreams refuses connections: failed requests of 5 s."""
    upstream, port = Upstream(), free_port()
    subject = Subject(name, options, [port, upstream.port])
    try:
        return failed_for(subject.port, 5, every=0.02)
    finally:
        subject.stop()
        upstream.stop()


def one_closes(name, options):
    """One of two upstreams closes without a reply: failed requests of 5 s."""
    upstream, bad = Upstream(), Upstream(keeps=False)
    subject = Subject(name, options, [bad.port, upstream.port])
    try:
        return failed_for(subject.port, 5, every=0.02)
    finally:
        subject.stop()
        upstream.stop()
        bad.stop()


def upload(port):
    """Whether an upload of 2 s is answered."""
    pieces, size = 20, 10_000
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.settimeout(20)
            connection.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                               b"Content-Length: %d\r\n\r\n" % (pieces * size))
            for _ in range(pieces):
                connection.sendall(b"x" * size)
                time.sleep(0.1)
            return connection.recv(64).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False


def uploads_at_a_drain(name, options):
    """Ten uploads are under way when the server is told to end: cut uploads."""
    upstream = Upstream()
    subject = Subject(name, options, [upstream.port])
    try:
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            uploads = [pool.submit(upload, subject.port) for _ in range(10)]
            time.sleep(0.7)
            subject.drain(name)
            return f"{sum(not done.result() for done in uploads)} of 10"
    finally:
        subject.stop()
        upstream.stop()


def left_behind(name, options):
    """20 clients leave a silent page, 10 of them by a reset: requests at the upstream 2 s later."""
    upstream = Upstream()
    subject = Subject(name, options, [upstream.port])
    try:
        clients = [begin(subject.port, "/silent") for _ in range(20)]
        end = time.monotonic() + 10
        while upstream.open < 20 and time.monotonic() < end:
            time.sleep(0.02)
        for number, client in enumerate(clients):
            if number % 2:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        time.sleep(2)
        return f"{upstream.open} of 20"
    finally:
        subject.stop()
        upstream.stop()


TROUBLES = [
    ("five event streams are silent for 60 s: requests of others that fail", slow_replies),
    ("100 abandoned requests, at most 50 connections: until somebody is served", abandoned),
    ("20 clients have left for 2 s: requests that are still at the upstream", left_behind),
    ("the upstream is back after 40 s: until somebody is served", returned),
    ("one of two upstreams refuses: requests that fail", one_refuses),
    ("one of two upstreams closes without a reply: requests that fail", one_closes),
    ("a drain during ten uploads: uploads that are cut", uploads_at_a_drain),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--duality", default="target/release/duality")
    parser.add_argument("--architecture", default="epoll")
    parser.add_argument("--only", default="", help="a part of a trouble's name")
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT")
    options = parser.parse_args()
    missing = [name for name in options.subjects if name not in SUBJECTS]
    if missing:
        parser.error(f"there is no {missing[0]}: choose of {', '.join(SUBJECTS)}")
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    os.environ["PATH"] = path
    programs = {"relay": options.duality}
    subjects = [name for name in options.subjects or SUBJECTS
                if shutil.which(programs.get(name, name), path=path)]
    print("| | " + " | ".join(subjects) + " |")
    print("| --- |" + " --- |" * len(subjects), flush=True)
    for what, measure in TROUBLES:
        if options.only in what:
            # Most of each is waiting, so the subjects are measured at the same time.
            with concurrent.futures.ThreadPoolExecutor(len(subjects)) as pool:
                cells = list(pool.map(lambda name, m=measure: m(name, options), subjects))
            print(f"| {what} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
