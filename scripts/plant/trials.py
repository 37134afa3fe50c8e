"""Trials of equal candidates and of bad ones (`planted.py trials`, `planted.py candidates`)."""

import json
import socket
import subprocess
import threading
from collections import Counter

from lab import tools, uneven


def trials(times):
    """Tries A/A trials: nothing may be decided for one of two equal candidates."""
    binary, wrong = str(tools()[0]), 0
    for number in range(times):
        command = [binary, "trial", "http", "--candidates", "a=epoll,b=epoll", "--listen", "127.0.0.1:0", "--slot", "200ms",
                   "--budget", "20s", "--then", "exit", "--json", "--seed", str(number)]
        trial = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        address, lines = None, []
        for line in trial.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "began":
                address = event["address"]
                load = subprocess.Popen([binary, "load", f"http://{address}/", "-c", "20", "--close", "-d", "18s"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            lines.append(event)
        load.wait()
        decided = next(one for one in lines if one.get("event") == "decided")
        wrong += decided["finding"]["finding"] == "winner"
        print(f"trials {number + 1} of {times}: {decided['finding']}", flush=True)
    print(f"trials: {wrong} of {times} trials of equal candidates had a winner")
    return wrong <= max(1, times // 20)


# Bad candidates: an architecture under which the program `uneven` is bad, more flags, and how.
CANDIDATES = {
    "pool": ([], "cuts 1 connection in 10"),
    "poll": ([], "answers 1 in 10 by a failure"),
    "select": ([], "accepts, and never answers"),
    "iterative": ([], "accepts one connection, and no other"),
    "uthreads": (["--slo", "p99=20ms"], "answers 50 ms late, beside --slo p99=20ms"),
    "threads": ([], "takes 300 us of processor time more"),
}


def asks(address, over, counts):
    """Makes requests on a connection each, and counts those that had no answer within a second."""
    host, port = address.rsplit(":", 1)
    while not over.is_set():
        counts["all"] += 1
        try:
            with socket.create_connection((host, int(port)), timeout=1) as stream:
                stream.sendall(b"how?\n")
                answered = stream.recv(64) == b"well\n"
        except OSError:
            answered = False
        if not answered:
            counts["hurt"] += 1


def candidates():
    """Tries a trial of each bad candidate beside a good one, and counts the requests that were hurt."""
    binary = str(uneven())
    good = True
    for name, (flags, how) in CANDIDATES.items():
        command = [binary, "trial", "--candidates", f"good=epoll,bad={name}", "--listen", "127.0.0.1:0", "--slot", "200ms",
                   "--budget", "20s", "--then", "exit", "--json", "--seed", "1", *flags]
        trial = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        counts, out, decided, clients, over = Counter(), None, None, [], threading.Event()
        # The trial itself ends after 20 s.
        threading.Timer(18, over.set).start()
        for line in trial.stdout:
            event = json.loads(line) if line.startswith("{") else {}
            if event.get("event") == "began":
                clients = [threading.Thread(target=asks, args=(event["address"], over, counts)) for _ in range(10)]
                for client in clients:
                    client.start()
            if event.get("event") == "out" and event["candidate"] == "bad":
                out = (event["at_s"], event["reason"]["why"])
            if event.get("event") == "decided":
                decided = event["finding"]
                # The trial ends, and what comes later is refused.
                over.set()
        for client in clients:
            client.join()
        is_found = (decided or {}).get("candidate") == "good"
        good &= is_found
        after = f"out after {out[0]:.1f} s ({out[1]})" if out else f"decided: {decided}"
        print(f"{'found ' if is_found else 'MISSED'} {name}, which {how}: {counts['hurt']} of {counts['all']} requests hurt; {after}",
              flush=True)
    return good
