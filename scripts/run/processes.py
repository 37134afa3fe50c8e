"""Processes and their children, from /proc."""

import os

KERNEL_STACK = 16
TICK = os.sysconf("SC_CLK_TCK")


def family(root):
    """The process and all its descendants."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents.setdefault(int(file.read().rsplit(")", 1)[1].split()[1]), []).append(int(name))
        except OSError:
            pass
    found, todo = [], [root]
    while todo:
        found.append(todo.pop())
        todo += parents.get(found[-1], [])
    return found


def usage(root):
    """Seconds of processor time, KiB of memory and the number of kernel threads."""
    seconds, memory, threads = 0.0, 0, 0
    for process in family(root):
        try:
            with open(f"/proc/{process}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            with open(f"/proc/{process}/status") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        except OSError:
            continue
        seconds += (int(fields[11]) + int(fields[12])) / TICK
        threads += int(fields[17])
        memory += sum(int(status.get(key, "0 kB").split()[0]) for key in ("RssAnon", "VmPTE"))
    return seconds, memory + threads * KERNEL_STACK, threads
