#!/usr/bin/env python3
"""Measures goodput at a limit on connections, and at five times as many clients, second by second.

    scripts/overload.py [--server target/release/duality] [--limit 20] [--seconds 3] [ARCHITECTURE ...]

Each architecture serves http with --max-connections LIMIT, under --when-full delay and shed. `wrk`
(one thread) opens a connection for each request. It takes turns with as many clients as the limit
and with five times as many, --rounds times. A good reply is a 200. The script prints a Markdown
table of medians, and exits with 1 if a goodput is below 0.9 of the goodput at the limit.

Goodput needs a quiet machine. The server's processor time for a good reply does not, and shows the
cost of refusals and waits. The processor time is the sum over all processes of the server.

Give each side a processor: taskset -c 0 for the server (--server-cpu 0) and -c 1 for wrk (--client-cpu 1).
"""

import argparse
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile

ALL = (
    "iterative fork prefork threads pool uthreads select poll epoll uring "
    "workpool-fifo workpool-priority workpool-serial gcd staged handwritten"
).split()

# The script counts each good reply in its second. wrk has no report for each second.
SCRIPT = """
local ffi = require("ffi")
ffi.cdef("typedef struct { long s, us; } moment; int gettimeofday(moment *, void *);")
local moment = ffi.new("moment")
local threads = {}
local function clock()
  ffi.C.gettimeofday(moment, nil)
  return tonumber(moment.s) + tonumber(moment.us) / 1e6
end
function setup(thread) table.insert(threads, thread) end
function init(args) good, first = {}, nil end
function response(status)
  local now = clock()
  first = first or now
  if status == 200 then
    local second = math.floor(now - first) + 1
    while #good < second do good[#good + 1] = 0 end
    good[second] = good[second] + 1
  end
  line = table.concat(good, " ")
end
function done(summary)
  for _, thread in ipairs(threads) do
    io.write("good: " .. (thread:get("line") or "") .. "\\n")
  end
  io.write(string.format("lasted: %d\\n", summary.duration))
end
"""


def pinned(cpu):
    return ["taskset", "-c", cpu] if cpu else []


def good_replies(address, clients, seconds, script, cpu):
    """Good replies in each second, and in a second on average."""
    command = pinned(cpu) + ["wrk", "-t1", f"-c{clients}", f"-d{seconds}s"]
    command += ["-s", script, "-H", "Connection: close", f"http://{address}/"]
    said = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + 30, check=True
    ).stdout
    each = [int(count) for count in re.search(r"good: ([\d ]*)", said)[1].split()]
    lasted = int(re.search(r"lasted: (\d+)", said)[1]) / 1e6
    return each, sum(each) / lasted


def processor_time(process):
    """The seconds that a process and its children have used, ended children included."""
    def used(number):
        with open(f"/proc/{number}/stat", encoding="utf-8") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    total = used(process)
    with open(f"/proc/{process}/task/{process}/children", encoding="utf-8") as children:
        for child in children.read().split():
            try:
                total += used(child)
            except (FileNotFoundError, ProcessLookupError):
                pass  # The process has ended.
    return total


def measure(options, architecture, when_full, script):
    """The rounds at the limit and beyond it: good replies in each second, on average, and the cost
    of a good reply."""
    command = pinned(options.server_cpu) + [options.server, "serve", "http", "-l", "127.0.0.1:0"]
    command += ["-a", architecture, f"--max-connections={options.limit}", f"--when-full={when_full}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            line = server.stdout.readline()
            if not line:
                return None
            address = line.split()[-1]
            limit = options.limit
            good_replies(address, limit, 1, script, options.client_cpu)
            rounds = {limit: [], 5 * limit: []}
            for _ in range(options.rounds):
                for clients, measured in rounds.items():
                    before = processor_time(server.pid)
                    each, rate = good_replies(address, clients, options.seconds, script, options.client_cpu)
                    cost = (processor_time(server.pid) - before) / max(sum(each), 1)
                    measured.append((rate, each, cost))
            return rounds[limit], rounds[5 * limit]
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(15)
            except subprocess.TimeoutExpired:
                server.kill()


def median(rounds, index):
    return statistics.median(measured[index] for measured in rounds)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="target/release/duality")
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--server-cpu")
    parser.add_argument("--client-cpu")
    parser.add_argument("--when-full", default="delay,shed")
    parser.add_argument("architectures", nargs="*", default=ALL)
    options = parser.parse_args()
    is_short = False
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(SCRIPT)
        script.flush()
        limit = options.limit
        print(f"| architecture | `--when-full` | {limit} clients, good/s | {5 * limit} clients,"
              " good in each second | good/s | ratio | server, µs a good reply |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for architecture in options.architectures or ALL:
            for when_full in options.when_full.split(","):
                measured = measure(options, architecture, when_full, script.name)
                if measured is None:
                    print(f"| {architecture} | {when_full} | does not run here | | | | |")
                    continue
                _, beyond = measured
                rates = [median(rounds, 0) for rounds in measured]
                costs = [1e6 * median(rounds, 2) for rounds in measured]
                ratio = rates[1] / rates[0]
                is_short |= ratio < 0.9
                seconds = ", ".join(map(str, beyond[-1][1]))
                print(f"| {architecture} | {when_full} | {rates[0]:,.0f} | {seconds} | {rates[1]:,.0f} |"
                      f" {ratio:.2f} | {costs[0]:.0f}, {costs[1]:.0f} |", flush=True)
    sys.exit(1 if is_short else 0)


if __name__ == "__main__":
    main()
