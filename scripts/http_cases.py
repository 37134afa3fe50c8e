#!/usr/bin/env python3
"""Computes the score of HTTP servers on the cases of crates/services/tests/all/http_cases.toml. That
file explains the cases.

    python3 scripts/http_cases.py TARGET...

A TARGET is HOST:PORT, or the name of a server that the script starts on a free port. The names are
`http`, `guestbook` (target/release/duality, on epoll; DUALITY names another binary) and `nginx`
(its configuration sets only paths and the port). Failed cases go to standard error, the table to
standard output. Exits with 1 if any case fails. Needs only Python 3.11 or later.
"""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
CASES = ROOT / "crates/services/tests/all/http_cases.toml"
DUALITY = os.environ.get("DUALITY", ROOT / "target/release/duality")
NEXT = "GET /next HTTP/1.1\r\nHost: h\r\n\r\n"
# Seconds that a server has to answer a case and close.
PATIENCE = 10

NGINX = """
daemon off; pid {home}/pid; error_log {home}/error.log;
events {{ }}
http {{
  access_log off; types {{ text/html html; }}
  client_body_temp_path {home}/b; proxy_temp_path {home}/p; fastcgi_temp_path {home}/f;
  uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;
  server {{ listen 127.0.0.1:{port}; root {home}/html; }}
}}
"""


def main(targets):
    with open(CASES, "rb") as file:
        groups = tomllib.load(file)
    scores, failed = [], 0
    for target in targets:
        with server(target) as address:
            score, faults = measure(groups, address)
        scores.append(score)
        failed += len(faults)
        for fault in faults:
            print(f"{target}: {fault}", file=sys.stderr)
    print(table(groups, targets, scores))
    return 1 if failed else 0


def measure(groups, address):
    """Returns passed cases and all cases, by group and by level, and a line for each that failed."""
    score, faults = {}, []
    for group, cases in groups.items():
        for name, case in cases.items():
            if name == "section":
                continue
            fault = judge(case, *converse(case, address))
            for key in (group, case["level"], "all"):
                passed, count = score.get(key, (0, 0))
                score[key] = (passed + (fault is None), count + 1)
            if fault is not None:
                faults.append(f"{group}: {name} ({case['level']}): {fault}")
    return score, faults


def table(groups, targets, scores):
    sections = {group: cases["section"] for group, cases in groups.items()}
    levels = {
        "must": "all that the standard requires",
        "should": "all that it advises",
        "strict": "the stricter of two ways",
        "all": "",
    }
    lines = [
        f"| cases | where the standard has them | {' | '.join(targets)} |",
        f"| --- | --- |{' ---: |' * len(targets)}",
    ]
    for key, where in (sections | levels).items():
        cells = ["{}/{}".format(*score[key]) for score in scores]
        key = f"**{key}**" if key in levels else key
        lines.append(f"| {key} | {where} | {' | '.join(cells)} |")
    return "\n".join(lines)


def converse(case, address):
    """Sends a case, ends the sending side, and returns the status codes and the last reply in small
    letters."""
    return exchange(request(case), address, case.get("head", False))


def exchange(sent, address, to_head):
    """Sends bytes, ends the sending side, and returns the status codes and the last reply in small
    letters."""
    received = bytearray()
    with socket.create_connection(address, timeout=PATIENCE) as connection:
        # A server that has refused may close before it has read everything. Then the client cannot
        # send the rest, and a reset may follow the reply.
        with contextlib.suppress(ConnectionError):
            connection.sendall(sent)
            connection.shutdown(socket.SHUT_WR)
        try:
            while piece := connection.recv(65536):
                received += piece
        except ConnectionError:
            pass
        except TimeoutError:
            return ["no end"], ""
    return replies(bytes(received), to_head)


def request(case):
    text = case["send"].replace("$NEXT", NEXT)
    text = text.replace("$GET", "GET / HTTP/1.1\r\n$HOST").replace("$POST", "POST / HTTP/1.1\r\n$HOST")
    text = text.replace("$HOST", "Host: h\r\n")
    if "fill" in case:
        text = text.replace("@", case.get("fill_with", "a") * case["fill"])
    return text.encode("latin-1")


def replies(received, to_head):
    """Takes the received bytes apart: the status codes, and the last reply in small letters."""
    codes, last = [], b""
    while received:
        head, mark, rest = received.partition(b"\r\n\r\n")
        words = head.split(b" ", 2)
        if not mark or not words[0].startswith(b"HTTP/") or len(words) < 2:
            # The reply is HTTP/0.9, or half a reply.
            return [*codes, "no reply"], received.decode("latin-1").lower()
        code = words[1].decode("latin-1")
        has_body = not (code.startswith("1") or code in ("204", "304") or (to_head and not codes))
        body, rest = split_body(head.lower(), rest) if has_body else (b"", rest)
        codes.append(code)
        last, received = head + mark + body, rest
    return codes, last.decode("latin-1").lower()


def split_body(head, rest):
    """Returns a body and what follows it. `head` is in small letters."""
    fields = dict(line.split(b":", 1) for line in head.split(b"\r\n")[1:] if b":" in line)
    if b"chunked" in fields.get(b"transfer-encoding", b""):
        body = b""
        while True:
            size, _, rest = rest.partition(b"\r\n")
            length = int(size.split(b";")[0], 16)
            if length == 0:
                return body, rest.partition(b"\r\n")[2]
            body, rest = body + rest[:length], rest[length + 2 :]
    length = int(fields.get(b"content-length", len(rest)))
    return rest[:length], rest[length:]


def judge(case, codes, last):
    """Returns what is wrong with an answer, or None."""
    if not any(is_allowed(codes, allowed.split()) for allowed in case["allows"]):
        return f"answered by {' '.join(codes) or 'nothing'!r}, not {' or '.join(map(repr, case['allows']))}"
    for text in case.get("has", []):
        if text.lower() not in last:
            return f"does not say {text!r}"
    for text in case.get("lacks", []):
        if text.lower() in last:
            return f"says {text!r}"
    next_is_left = case["send"].endswith("$NEXT") and codes[-1:] != ["404"]
    if next_is_left and codes and "\r\nconnection: close\r\n" not in last:
        return "does not say that the connection ends"
    return None


def is_allowed(codes, allowed):
    return len(codes) == len(allowed) and all(
        code == wanted or (wanted.endswith("xx") and code[0] == wanted[0] and len(code) == 3)
        for code, wanted in zip(codes, allowed)
    )


@contextlib.contextmanager
def server(target):
    """The address of a target. A server that the script started ends with the block."""
    if ":" in target:
        host, port = target.rsplit(":", 1)
        yield host.strip("[]"), int(port)
        return
    with tempfile.TemporaryDirectory(prefix="http-cases-") as home:
        process, address = start(target, pathlib.Path(home))
        try:
            yield address
        finally:
            process.terminate()
            process.wait()


def start(name, home):
    if name != "nginx":
        name, _, architecture = name.partition("@")
        command = [DUALITY, "serve", name, "--architecture", architecture or "epoll", "--listen", "127.0.0.1:0"]
        if name == "guestbook":
            command += ["--store", f"sqlite:{home}/store"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        port = process.stdout.readline().rsplit(":", 1)[1]
        return process, ("127.0.0.1", int(port))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        address = probe.getsockname()
    home.chmod(0o755)
    (home / "html").mkdir()
    shutil.copy(ROOT / "crates/services/demo/index.html", home / "html")
    (home / "nginx.conf").write_text(NGINX.format(home=home, port=address[1]))
    nginx = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    command = [nginx, "-p", home, "-c", home / "nginx.conf", "-e", home / "error.log"]
    process = subprocess.Popen(command)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(address).close()
            return process, address
        time.sleep(0.02)
    process.kill()
    sys.exit(f"nginx does not serve; its log: {(home / 'error.log').read_text()}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
