#!/usr/bin/env python3
"""Computes the score of HTTP servers in the public suites of docs/http.md.

    python3 scripts/http_suites.py FOLDER TARGET... [--faults]

FOLDER has a clone of each suite under its usual name (`git clone https://github.com/nodejs/llhttp`
and so on). Go's two tables come from `$(go env GOROOT)`. The script skips a missing suite, and the
table says so. A TARGET is a target of scripts/http_cases.py, or `http@ARCHITECTURE`. `--faults`
lists each case that differs, on standard error.

A server must understand a valid request, with any answer (404, 405 and 501 count). It must refuse
an invalid request, by a status or by silence. Requests of HTTP/1.1 without a `Host` get a `Host`,
and a target that names a host has the same `Host`. Needs Python 3.11. The suite of uNetworking
needs Node.js.
"""

import ast
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import http_cases

STRING = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
STRINGS = rf"{STRING}(?:\s*[.+]\s*{STRING})*"
# Deno's sockets for Node.js: the part that the suite of uNetworking uses.
DENO = """
const net = require("node:net");
globalThis.Deno = {
  args: process.argv.slice(2),
  exit: (code) => process.exit(code),
  connect: ({ hostname, port }) => new Promise((resolve, reject) => {
    const socket = net.connect(port, hostname), pieces = [], readers = [];
    let ended = false, left = false;
    const give = () => { while (readers.length && !left && (pieces.length || ended)) {
      const [buffer, done] = readers.shift(), piece = pieces.shift();
      if (piece === undefined) { done(null); continue; }
      buffer.set(piece.subarray(0, buffer.length));
      done(Math.min(piece.length, buffer.length));
    } };
    socket.on("data", (piece) => { pieces.push(piece); give(); });
    socket.on("error", reject);
    socket.on("close", () => { ended = true; give(); });
    socket.on("connect", () => resolve({
      write: (bytes) => new Promise((done) => socket.write(bytes, () => done(bytes.length))),
      read: (buffer) => new Promise((done) => { readers.push([buffer, done]); give(); }),
      close: () => { left = true; socket.destroy(); },
    }));
  }),
};
"""


def main(arguments):
    targets = [word for word in arguments if word != "--faults"]
    folder = pathlib.Path(targets.pop(0))
    print(f"| suite | commit | cases | {' | '.join(targets)} |")
    print(f"| --- | --- | ---: |{' ---: |' * len(targets)}")
    for name, place, measure in SUITES:
        home = pathlib.Path(go_root()) if name == "Go" else folder / place
        if not home.exists():
            print(f"| {name} | skipped: {home} is missing | |{' |' * len(targets)}", flush=True)
            continue
        scores = []
        for target in targets:
            with http_cases.server(target) as address:
                count, faults = measure(home, address)
            scores.append(str(count - len(faults)))
            if "--faults" in arguments:
                print("".join(f"{name}, {target}: {fault}\n" for fault in faults), end="", file=sys.stderr)
        print(f"| {name} | {commit(home)} | {count} | {' | '.join(scores)} |", flush=True)


def go_root():
    go = shutil.which("go", path="/usr/local/go/bin:/usr/bin")
    return subprocess.check_output([go, "env", "GOROOT"], text=True).strip() if go else "$(go env GOROOT)"


def commit(home):
    if (home / "VERSION").exists() and not (home / ".git").exists():
        return (home / "VERSION").read_text().split()[0]
    return subprocess.check_output(["git", "-C", home, "log", "-1", "--format=%h"], text=True).strip()


def by_cases(collect):
    """Makes a suite from a function that returns (name, request, whether it is valid) for each case."""

    def measure(home, address):
        cases = collect(home)
        faults = [
            f"{name}: {'valid' if valid else 'invalid'}, answered by {codes or 'silence'}: {request[:120]!r}"
            for name, request, valid in cases
            for codes in [answer(with_host(request), address)]
            if not fits(codes, valid)
        ]
        return len(cases), faults

    return measure


def answer(request, address):
    return http_cases.exchange(request, address, request.startswith(b"HEAD"))[0]


def fits(codes, valid):
    """Whether a server took a valid request or refused an invalid request, by its status codes."""
    took = bool(codes) and all(code[0] in "123" or code in ("404", "405", "501") for code in codes)
    return took == valid or (not valid and codes[-1:] == ["501"])


def with_host(request):
    if b"host:" in request.lower():
        return request
    start = re.compile(rb"(?m)^(\S+ (?:http://([^/?# ]+))?\S* HTTP/1\.1\r\n)")
    return start.sub(lambda found: found[1] + b"Host: " + (found[2] or b"localhost") + b"\r\n", request)


def gunicorn(home):
    """The cases of tests/requests, without files that set an option."""
    cases = []
    for file in sorted((home / "tests/requests").glob("*valid/*.http")):
        expected = file.with_suffix(".py").read_text()
        if "cfg.set(" in expected:
            continue
        data = file.read_bytes().replace(b"\n", b"").replace(b"\\r\\n", b"\r\n")
        data = data.replace(b"\\0", b"\0").replace(b"\\n", b"\n").replace(b"\\t", b"\t")
        data = re.sub(rb"\\x([0-9a-fA-F]{2})", lambda found: bytes([int(found[1], 16)]), data)
        cases.append((file.stem, data, file.parent.name == "valid"))
    return cases


def llhttp(home):
    """The cases of test/request, without lenient modes, pauses, responses, ICE and RTSP."""
    cases = []
    table = re.compile(r"<!-- meta=(\{.*?\}) -->\s*```http\n(.*?)```\s*```log\n(.*?)```", re.S)
    for file in sorted((home / "test/request").glob("*.md")):
        for meta, text, log in table.findall(file.read_text()):
            meta = json.loads(meta)
            if meta["type"] != "request" or "pause" in meta or "skipBody" in meta:
                continue
            if re.search(r"^\S+ \S+ (RTSP|ICE)/|^(SOURCE|HTTP)", text, re.M):
                continue
            text = re.sub(r"\\\n", "", text.removesuffix("\n")).replace("\n", "\r\n")
            for escape, byte in (("\\r", "\r"), ("\\n", "\n"), ("\\t", "\t"), ("\\f", "\f")):
                text = text.replace(escape, byte)
            text = re.sub(r"\\x([0-9a-fA-F]+)", lambda found: chr(int(found[1], 16)), text)
            text = re.sub(r"\\([0-7]{1,3})", lambda found: chr(int(found[1], 8)), text)
            if "${" not in text:
                # 22 is no error: the bytes after an upgrade belong to the application.
                valid = re.search(r"error code=(?!22 )", log) is None
                cases.append((file.stem, text.encode(), valid))
    return cases


def go(home):
    """The two tables of net/http/readrequest_test.go."""
    text = (home / "src/net/http/readrequest_test.go").read_text()
    good, bad = text.split("var badRequestTests", 1)
    cases = []
    for entry in re.split(r"\n\t\{\n", good.split("var reqTests", 1)[1])[1:]:
        raw = re.split(r"\n\t\t(?:&Request|nil,)", entry, maxsplit=1)[0]
        request = joined(re.findall(STRING, re.sub(r"^\s*//.*$", "", raw, flags=re.M)))
        cases.append((request.split("\r\n")[0], request.encode("latin-1"), "noError," in entry))
    for name, source in re.findall(r'\{"(\w+)", reqBytes\((.*?)\)\}', bad, re.S):
        pieces = re.findall(r'`([^`]*)`|("(?:[^"\\]|\\.)*")', source)
        request = "".join(plain or joined([quoted]) for plain, quoted in pieces).strip()
        cases.append((name, request.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n", False))
    return cases


def joined(literals):
    return "".join(ast.literal_eval(literal) for literal in literals)


def nginx_tests(home):
    """Hosts, methods and targets of http_host.t, http_method.t and http_uri.t."""
    forms = {
        "http_host_header": "GET / HTTP/1.0\nHost: {}\n\n",
        "http_absolute_path": "GET http://{0}/ HTTP/1.0\nHost: {0}\n\n",
        "http_get": "GET {} HTTP/1.0\nHost: localhost\n\n",
    }
    cases = []
    for name in ("http_host.t", "http_uri.t"):
        text = (home / name).read_text()
        for form, literals, rest in re.findall(rf"(?:like|is)\((\w+)\(\s*({STRINGS})(.*?);\n", text, re.S):
            target = joined(re.findall(STRING, literals))
            request = forms[form].format(target).replace("\n", "\r\n")
            cases.append((f"{form} {target}", request.encode("latin-1"), not re.search(r"qr ?/ ?400", rest)))
    text = (home / "http_method.t").read_text()
    for status, name, request in re.findall(r"qr/(\d+) [^/]*/, '([^']*)'\);\n(.*?\n\n)", text, re.S):
        cases.append((name, request.replace("\n", "\r\n").encode("latin-1"), status == "405"))
    return cases


def dropseed(home, address):
    run = [sys.executable, "-c", "import h1spec, sys; sys.exit(h1spec.main())", "--strict", "%s:%d" % address]
    return counted(subprocess.run(run, cwd=home, capture_output=True, text=True).stdout, r"✗.* \d+\. (.*)", r"[✓✗]")


def unetworking(home, address):
    source = (home / "http_test.ts").read_text()
    source = re.sub(r"interface \w+ \{.*?\n\}", "", source, flags=re.S)
    source = re.sub(r"(\w+)(?:\[\])?: (?:TestCase\[\]|TestCase|string|number)(?=[,) =])", r"\1", source)
    source = re.sub(r"\): (?:Promise<boolean>|number|string)", ")", source).replace("new Promise<boolean>", "new Promise")
    with tempfile.NamedTemporaryFile("w", suffix=".js") as file:
        file.write(DENO + source)
        file.flush()
        run = ["node", file.name, address[0], str(address[1])]
        said = subprocess.run(run, capture_output=True, text=True)
    return counted(said.stdout + said.stderr, r"❌ (.*)", r"[✅❌]")


def counted(text, fault, case):
    faults = re.findall(fault, text)
    count = len(re.findall(case, text))
    if count == 0:
        sys.exit(f"the suite says nothing: {text[:500]}")
    return count, faults


SUITES = [
    ("h1spec of dropseed", "dropseed-h1spec", dropseed),
    ("h1spec of uNetworking", "uNetworking-h1spec", unetworking),
    ("gunicorn", "benoitc-gunicorn", by_cases(gunicorn)),
    ("llhttp", "nodejs-llhttp", by_cases(llhttp)),
    ("Go", "", by_cases(go)),
    ("nginx-tests", "nginx-nginx-tests", by_cases(nginx_tests)),
]


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(sys.argv[1:])
