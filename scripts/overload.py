#!/usr/bin/env python3
"""Goodput at a limit on connections, and at five times as many clients, second by second.

    scripts/overload.py [--server target/release/duality] [--limit 20] [--seconds 3] [ARCHITECTURE ...]

Each architecture serves http with --max-connections LIMIT, under --when-full delay and shed. `wrk` (one thread) asks
with a connection for each request: first with as many clients as the limit, then with five times as many. A good reply
is a 200. The script prints a Markdown table and exits with 1 if a goodput is below 0.9 of that at the limit.

Give each side a processor: taskset -c 0 for the server (--server-cpu 0) and -c 1 for wrk (--client-cpu 1).
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile

ALL = (
    "iterative fork prefork threads pool uthreads select poll epoll uring "
    "workpool-fifo workpool-priority workpool-serial gcd staged handwritten"
).split()

# Each good reply is counted in its second. wrk has no report for each second.
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


def measure(options, architecture, when_full, script):
    command = pinned(options.server_cpu) + [options.server, "serve", "http", "-l", "127.0.0.1:0"]
    command += ["-a", architecture, f"--max-connections={options.limit}", f"--when-full={when_full}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            line = server.stdout.readline()
            if not line:
                return None
            address = line.split()[-1]
            limit, seconds = options.limit, options.seconds
            good_replies(address, limit, 1, script, options.client_cpu)
            _, before = good_replies(address, limit, seconds, script, options.client_cpu)
            each, over = good_replies(address, 5 * limit, seconds, script, options.client_cpu)
            _, after = good_replies(address, limit, seconds, script, options.client_cpu)
            return (before + after) / 2, each, over
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                server.wait(15)
            except subprocess.TimeoutExpired:
                server.kill()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="target/release/duality")
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=3)
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
              " good in each second | good/s | ratio |")
        print("| --- | --- | --- | --- | --- | --- |")
        for architecture in options.architectures or ALL:
            for when_full in options.when_full.split(","):
                measured = measure(options, architecture, when_full, script.name)
                if measured is None:
                    print(f"| {architecture} | {when_full} | does not run here | | | |")
                    continue
                at_limit, each, over = measured
                ratio = over / at_limit
                is_short |= ratio < 0.9
                seconds = ", ".join(map(str, each))
                print(f"| {architecture} | {when_full} | {at_limit:,.0f} | {seconds} |"
                      f" {over:,.0f} | {ratio:.2f} |", flush=True)
    sys.exit(1 if is_short else 0)


if __name__ == "__main__":
    main()
