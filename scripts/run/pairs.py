"""Processor time for each request of a server, natively and by `duality run`, in alternating pairs.

    scripts/run/pairs.py DUALITY PAIRS CONNECTIONS,… -- ./server {port} FOLDER [/path]

The server runs on processor 0, wrk on processor 1, three seconds at a time. Prints each pair's
ratio and their median. wrk asks for the path after the folder.
"""

import os
import re
import statistics
import subprocess
import sys
import time

SECONDS = 3


def processor_time(process):
    fields = open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(command, port, path, connections):
    """Microseconds of processor time for each request."""
    words = [word.replace("{port}", str(port)) for word in command]
    server = subprocess.Popen(["taskset", "-c", "0", *words])
    time.sleep(0.5)
    load = ["taskset", "-c", "1", "wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s", f"http://127.0.0.1:{port}{path}"]
    said = subprocess.run(load, capture_output=True, text=True, check=True).stdout
    used = processor_time(server.pid)
    server.kill()
    server.wait()
    return used * 1e6 / int(re.search(r"(\d+) requests in", said)[1])


def main():
    duality, pairs, counts = sys.argv[1:4]
    command = sys.argv[5:]
    path = command.pop() if command[-1].startswith("/") and len(command) > 3 else "/"
    port = 20000 + os.getpid() % 20000
    for connections in map(int, counts.split(",")):
        ratios = []
        for pair in range(int(pairs)):
            figures = {}
            subjects = [("native", command), ("run", [duality, "run", "--", *command])]
            for name, words in subjects if pair % 2 == 0 else reversed(subjects):
                port += 1
                figures[name] = measure(words, port, path, connections)
            ratios.append(figures["run"] / figures["native"])
            print(f"{connections:6} connections: native {figures['native']:.1f} us, run {figures['run']:.1f} us")
        shown = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
        print(f"{connections:6} connections: median ratio {statistics.median(ratios):.2f} ({shown})")


main()
