"""Runs threaded programs of Debian natively and by `duality run`, and compares output and exit
status.

    python3 scripts/run_programs.py target/release/duality            those that are installed
    python3 scripts/run_programs.py target/release/duality nginx xz   these

A program runs to its end, or serves. A client of a server runs, and then SIGTERM ends the server.
The script compares exit status and standard output of the program and of the client. If the engine
refuses a program, it must refuse at once, with exit status 2. No program may hang.
"""

import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "run"))

from processes import family
from programs import PROGRAMS

LIMIT = 120


def find(program):
    return shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin")


def free_port():
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        # The port is below the ports of clients.
        return trial.getsockname()[1] % 20000 + 11000


def destroy(process):
    for member in family(process.pid):
        try:
            os.kill(member, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def shell(text, folder, values):
    """Runs a client, and returns its status and its output."""
    text = "export PATH=$PATH:/usr/sbin:/sbin; " + text.format_map(values)
    client = subprocess.Popen(["sh", "-c", text], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = client.communicate(timeout=LIMIT)[0]
    except subprocess.TimeoutExpired:
        destroy(client)
        said = b"the client has no end"
    return client.returncode, said


def wait_for_port(port, process):
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)


def observe(program, prefix, folder):
    """The visible results of a program, as a dictionary."""
    values = {"port": free_port(), "port2": free_port(), "folder": folder, "here": HERE}
    for name, text in program.get("files", {}).items():
        with open(os.path.join(folder, name), "w") as file:
            for key, value in values.items():
                text = text.replace("{" + key + "}", str(value))
            file.write(text)
    if "before" in program:
        status, said = shell(program["before"], folder, values)
        if status:
            return {"preparation": said.decode(errors="replace")[-500:]}
    words = [word.format_map(values) for word in program["command"]]
    environment = dict(os.environ, **program.get("environment", {}))
    environment["PATH"] += ":/usr/sbin:/sbin"
    identity = {}
    if "user" in program:
        identity["user"] = program["user"]
        shutil.chown(folder, program["user"])
    out, complaints = os.path.join(folder, "out"), os.path.join(folder, "complaints")
    seen = {}
    with open(out, "wb") as stdout, open(complaints, "wb") as stderr:
        start = time.monotonic()
        process = subprocess.Popen([*prefix, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, env=environment, **identity)
        if "client" in program:
            if program.get("udp"):
                time.sleep(program["udp"])
            else:
                wait_for_port(values["port"], process)
            ended = process.poll()
            if ended is not None:
                seen["ended early"] = ended
            else:
                status, said = shell(program["client"], folder, values)
                seen["client"] = (status, mask(said, values, program))
                seen["alive"] = process.poll() is None
                process.send_signal(program.get("signal", signal.SIGTERM))
        try:
            seen["status"] = process.wait(LIMIT if "client" not in program else 40)
        except subprocess.TimeoutExpired:
            shutil.copy(f"/proc/{process.pid}/status", "/tmp/hung.status")
            destroy(process)
            seen["status"] = "does not end"
        seconds = time.monotonic() - start
    with open(out, "rb") as file:
        seen["output"] = mask(file.read(), values, program)
    with open(complaints, "rb") as file:
        said = file.read()
    if b"duality run:" in said:
        lines = [line for line in said.split(b"\n") if b"duality run:" in line and b"is a script for" not in line]
        if lines:
            seen["engine"] = b"\n".join(lines).decode(errors="replace")
    return seen, said.decode(errors="replace"), seconds


def mask(said, values, program):
    """The output, without the parts that differ from run to run."""
    if program.get("ignore_output"):
        return ""
    if len(said) > 20000:
        return f"{len(said)} bytes, {hashlib.sha256(said).hexdigest()}"
    text = said.decode(errors="replace").replace(values["folder"], "FOLDER").replace(str(values["port"]), "PORT").replace(str(values["port2"]), "PORT2")
    for pattern in program.get("mask", []):
        text = re.sub(pattern, "…", text)
    return text


def main():
    duality, *names = sys.argv[1:]
    options = []
    while names and names[0].startswith("--"):
        options.append(names.pop(0))
    wrong = 0
    for name, program in PROGRAMS.items():
        if names and name not in names:
            continue
        missing = next((need for need in program.get("needs", program["command"][:1]) if not find(need)), None)
        if missing:
            print(f"{name:18} skipped: {missing} is not installed", flush=True)
            continue
        results = []
        for prefix in ([], [os.path.abspath(duality), "run", *options, "--"]):
            with tempfile.TemporaryDirectory() as folder:
                os.chmod(folder, 0o755)
                results.append(observe(program, prefix, folder))
        if isinstance(results[0], dict):
            print(f"{name:18} cannot be prepared: {results[0]}", flush=True)
            continue
        (native, said_native, took_native), (ours, said, took) = results
        if native == ours:
            print(f"{name:18} same: status {native['status']}; {took_native:.1f} s, {took:.1f} s", flush=True)
        elif ours["status"] == 2 and "engine" in ours and took < 2:
            print(f"{name:18} refused: {ours['engine'][:150]}", flush=True)
        else:
            wrong += 1
            print(f"{name:18} DIFFERS ({took_native:.1f} s, {took:.1f} s)", flush=True)
            for key in native.keys() | ours.keys():
                if native.get(key) != ours.get(key):
                    print(f"    {key}: natively {str(native.get(key))[-700:]!r}\n    {' ' * len(key)}  on the engine {str(ours.get(key))[-700:]!r}")
            print(f"    natively complains: {said_native[-400:]!r}\n    on the engine: {said[-600:]!r}", flush=True)
    sys.exit(wrong != 0)


main()
