"""Compares the throughput of programs natively and by `duality run --cores 2`, in alternating
pairs, on all processors.

    two_workers.py DUALITY mariadb|memcached|cpu ROUNDS

The client of a server shares the processors. `cpu` compresses this machine's Rust libraries, so
build first.
"""

import glob
import os
import statistics
import subprocess
import sys
import tempfile
import time

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def processor_time(process):
    fields = open(f"/proc/{process}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def pairs(duality, name, rounds, measure):
    """`measure` gives operations per second, and microseconds of processor time for each operation."""
    subjects = {"native": [], "run": [duality, "run", "--cores", "2", "--"]}
    rates, costs = ({subject: [] for subject in subjects} for _ in range(2))
    for turn in range(rounds):
        for subject in list(subjects) if turn % 2 == 0 else list(subjects)[::-1]:
            rate, cost = measure(subjects[subject])
            rates[subject].append(rate)
            costs[subject].append(cost)
    ratios = sorted(run / native for native, run in zip(rates["native"], rates["run"]))
    shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    native, run = (statistics.median(costs[subject]) for subject in subjects)
    print(f"{name}: throughput {statistics.median(ratios):.2f} ({shown}); processor time {native:.1f} and {run:.1f} us")


def server(command, ready, load, operations):
    def measure(prefix):
        process = subprocess.Popen(prefix + command, **QUIET)
        try:
            for _ in range(300):
                if subprocess.run(ready, **QUIET).returncode == 0:
                    break
                time.sleep(0.1)
            before, start = processor_time(process.pid), time.time()
            subprocess.run(load, check=True, timeout=120, **QUIET)
            took, used = time.time() - start, processor_time(process.pid) - before
        finally:
            process.terminate()
            process.wait()
        return operations / took, used * 1e6 / operations

    return measure


def tool(command):
    def measure(prefix):
        start = time.time()
        subprocess.run(prefix + command, check=True, **QUIET)
        return 1 / (time.time() - start), 0

    return measure


def memcached(duality, rounds):
    port = str(20000 + os.getpid() % 20000)
    command = ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", port, "-t", "4", "-c", "4096"]
    ready = ["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{port}"]
    for clients in (50, 400):
        load = ["memcslap", f"--servers=127.0.0.1:{port}", f"--concurrency={clients}", "--test=get"]
        load.append(f"--execute-number={100000 // clients}")
        pairs(duality, f"memcached, {clients} clients", rounds, server(command, ready, load, 100000))


def mariadb(duality, rounds):
    with tempfile.TemporaryDirectory() as folder:
        data, socket = f"--datadir={folder}/data", f"--socket={folder}/socket"
        method = "--auth-root-authentication-method=normal"
        subprocess.run(["mariadb-install-db", "--no-defaults", data, "--user=root", method], check=True, **QUIET)
        command = ["mariadbd", "--no-defaults", data, socket, "--user=root", "--skip-networking", "--max-connections=1000"]
        ready = ["mariadb-admin", "--no-defaults", socket, "-uroot", "ping"]
        for clients in (20, 200):
            load = ["mysqlslap", "--no-defaults", socket, "-uroot", f"--concurrency={clients}", "--number-of-queries=8000"]
            load += ["--auto-generate-sql", "--auto-generate-sql-load-type=read", "--auto-generate-sql-write-number=50"]
            pairs(duality, f"MariaDB, {clients} clients", rounds, server(command, ready, load, 8000))


def cpu(duality, rounds):
    with tempfile.NamedTemporaryFile() as file:
        for library in sorted(glob.glob("target/release/deps/*.rlib")):
            if file.tell() < 80_000_000:
                file.write(open(library, "rb").read())
        file.flush()
        pairs(duality, "pigz -p2", rounds, tool(["pigz", "-p2", "-c", file.name]))
        pairs(duality, "xz -T2", rounds, tool(["xz", "-T2", "-1", "--block-size=4MiB", "-c", file.name]))


def main():
    if len(sys.argv) != 4 or sys.argv[2] not in ("mariadb", "memcached", "cpu"):
        sys.exit(__doc__)
    {"mariadb": mariadb, "memcached": memcached, "cpu": cpu}[sys.argv[2]](sys.argv[1], int(sys.argv[3]))


main()
