"""Runs real servers natively and by `duality run`. Compares the answers byte for byte, and the cost
of each request.

    python3 scripts/run_servers.py target/release/duality                         every server that is installed, 1,000 clients
    python3 scripts/run_servers.py target/release/duality --clients 10000
    python3 scripts/run_servers.py target/release/duality --minutes 10 --tick 1ms soak: so many minutes in all, the engine alone
    python3 scripts/run_servers.py target/release/duality --only redis,mariadb
    python3 scripts/run_servers.py target/release/duality --compiled /tmp/converted   beside those that `duality cc` made there

All clients are connected at the same time. Each client asks several times, and the script compares
every answer with the native server's answers. Then SIGTERM ends the server, and the server must end
as the native server does. The script does not check times: the table shows them.

processor time   of the server and its children, user and kernel, for each answer (from /proc: 10 ms steps)
memory           resident memory, page tables, and 16 KiB of kernel stack for each kernel thread, with all clients connected
"""

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "run"))

import clients
import servers
from processes import family, usage


def wait_for_port(port, process, limit=60):
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise clients.Failure(f"it ended with {process.returncode} before it served")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise clients.Failure("it does not listen")


def end(process):
    """The exit status after SIGTERM. A process that does not end is killed."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(30)
    except subprocess.TimeoutExpired:
        for member in family(process.pid):
            os.kill(member, signal.SIGKILL)
        process.wait()
        return "did not end"


def free_port():
    """A free port with a free port after it."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1] % 20000 + 10000
            try:
                for listener, number in ((first, port), (second, port + 1)):
                    listener.close()
                    with socket.socket() as trial:
                        trial.bind(("127.0.0.1", number))
                return port
            except OSError:
                continue


def taken_from(folder, words):
    """The command with the program of the same name in the folder; None if the folder has no such
    program."""
    program = os.path.join(folder, os.path.basename(words[0]))
    return [program, *words[1:]] if os.path.exists(program) else None


def serve(server, way, folder, count, seconds, log):
    """Starts the server, lets the crowd ask until the seconds are over (at least once), and ends the server."""
    port = free_port()
    backend = None
    if server.backend:
        backend = subprocess.Popen(servers.knot_like(folder, port + 1, count))
        wait_for_port(port + 1, backend)
        servers.BACKEND_PORT = port + 1 if server.name == "microsocks" else f"{port + 1}/index.html"
    words = way(server.command(folder, port, count))
    if words is None:
        return None
    environment = dict(os.environ, PATH=os.environ["PATH"] + ":/usr/sbin:/sbin")
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
    try:
        wait_for_port(port, process)
        before = usage(process.pid)
        answers, requests, shown = set(), 0, None
        stop = time.monotonic() + seconds
        while True:
            seen = []
            crowd = clients.Crowd(port, count, server.conversation, server.rounds, server.at_a_time)
            crowd.run(600, lambda: seen.append(usage(process.pid)))
            answers |= crowd.answers
            requests += crowd.requests
            shown = shown or seen[0]
            if time.monotonic() >= stop:
                break
        after = usage(process.pid)
        if process.poll() is not None:
            raise clients.Failure(f"it ended with {process.returncode}")
        figures = {"microseconds": (after[0] - before[0]) * 1e6 / requests, "memory": shown[1], "threads": shown[2], "requests": requests}
    finally:
        if backend:
            backend.kill()
            backend.wait()
        status = end(process) if process.poll() is None else process.returncode
    return answers, figures, status


def compare(server, options, folder):
    """Prints one row of the table. Returns whether all is well."""
    count = min(options.clients, server.most)
    run = [options.duality, "run", *(["--tick", options.tick] if options.tick else []), *options.option, "--"]
    def native(words):
        return options.native and taken_from(options.native, words) or words

    ways = {"native": native, "run": lambda words: run + native(words)}
    if options.compiled:
        ways["cc"] = lambda words: taken_from(options.compiled, words)
    results = {}
    for name, way in ways.items():
        with open(os.path.join(options.logs or folder, f"{server.name}.{name}.log"), "w") as log:
            try:
                results[name] = serve(server, way, folder, count, min(options.seconds, 3) if name == "native" else options.seconds, log)
            except clients.Failure as failure:
                with open(log.name) as said:
                    tail = said.read()[-600:]
                print(f"{server.name:18} {count:6}  {name}: {failure}\n{tail}", flush=True)
                return False
    plain = results.pop("native")
    alike = True
    for name, ours in results.items():
        if ours is None:
            continue
        same, ended = plain[0] == ours[0], plain[2] == ours[2]
        verdict = ("same" if same and ended else f"answers differ: {next(iter(plain[0] ^ ours[0]))[:300]!r}" if not same
                   else f"ends with {ours[2]}, natively with {plain[2]}")
        micro = [of[1]["microseconds"] for of in (plain, ours)]
        ratio = f"{micro[1] / micro[0]:.2f}" if micro[0] else "-"
        print(f"{server.name:18} {name:3} {count:7} {ours[1]['requests']:9} {micro[0]:8.1f} {micro[1]:8.1f} {ratio:>6} "
              f"{plain[1]['memory'] // 1024:6} {ours[1]['memory'] // 1024:6} {plain[1]['threads']:7} {ours[1]['threads']:4}  {verdict}", flush=True)
        alike &= same and ended
    return alike


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("duality")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3, help="of load on each server; every client asks all at least once")
    parser.add_argument("--minutes", type=float, default=0, help="minutes of load on the engine, spread over the servers")
    parser.add_argument("--tick", help="as for duality run")
    parser.add_argument("--option", action="append", default=[], help="another option of duality run")
    parser.add_argument("--only", help="names of servers, with commas")
    parser.add_argument("--compiled", metavar="FOLDER", help="where programs are that `duality cc` made, with the names of the native ones")
    parser.add_argument("--native", metavar="FOLDER", help="where native programs of the same sources are, in place of those installed")
    parser.add_argument("--logs", help="a folder for what the servers say")
    options = parser.parse_args()
    clients.raise_limits()
    chosen = [server for server in servers.SERVERS if not options.only or server.name in options.only.split(",")]
    present = []
    for server in chosen:
        missing = server.missing()
        if missing:
            print(f"{server.name:18} skipped: {missing} is not installed")
        else:
            present.append(server)
    if options.minutes:
        options.seconds = options.minutes * 60 / max(len(present), 1)
    print(f"{'server':18} {'way':3} {'clients':>7} {'answers':>9} {'native us':>8} {'us':>7} {'ratio':>6} {'MiB':>6} {'MiB':>6} {'threads':>7} {'':4}  answers and end")
    failed = False
    for server in present:
        # Servers that give up privileges read in this folder.
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            failed |= not compare(server, options, folder)
    sys.exit(failed)


main()
