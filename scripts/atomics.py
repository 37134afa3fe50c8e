#!/usr/bin/env python3
"""Counts the instructions, system calls and atomic read-modify-writes that a server executes for a request.

    python3 scripts/atomics.py target/release/duality [SERVICE [ARCHITECTURE …]]        http, epoll uthreads

The script steps through the server, one instruction at a time (ptrace(2)), from one wait of its
loop to the next. It does so twenty times, after a hundred requests on the same connection, and
shows the median. Once a second a request checks whether its page is current. Stepping is slow, so
some of the twenty requests do, and have the most instructions. An instruction counts as atomic if
x86-64 locks the bus or a cache line for it: an instruction with the prefix `lock`, or `xchg` with
memory. The script does not see instructions of the kernel.
"""

import collections
import ctypes
import os
import platform
import select
import signal
import socket
import subprocess
import sys

ATTACH, SINGLESTEP, GETREGS, DETACH = 16, 9, 12, 17
RAX, RIP, REGISTERS = 10, 16, 27  # Places in user_regs_struct, and its number of words.
# poll, select, epoll_wait, pselect6, ppoll, epoll_pwait, io_uring_enter, epoll_pwait2
WAITS = {7, 23, 232, 270, 271, 281, 426, 441}
REQUESTS = {"http": b"GET / HTTP/1.1\r\nHost: test\r\n\r\n", "echo": b"hello\n"}
PREFIXES = {0x66, 0xF2, 0xF3, 0x2E, 0x36, 0x3E, 0x26, 0x64, 0x65, 0xF0}

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, pid, data=None):
    if libc.ptrace(request, pid, None, data) < 0:
        sys.exit(f"ptrace: {os.strerror(ctypes.get_errno())}: run it as the user who may trace the server")


def kind_of(code):
    """`lock`, `syscall` or nothing, from the first bytes of an instruction."""
    at, locked = 0, False
    while code[at] in PREFIXES:
        locked |= code[at] == 0xF0
        at += 1
    if 0x40 <= code[at] <= 0x4F:
        at += 1
    exchange = code[at] in (0x86, 0x87) and code[at + 1] < 0xC0
    if locked or exchange:
        return "lock"
    return "syscall" if code[at:at + 2] == b"\x0f\x05" else ""


def ask(client, request, length):
    """Sends a request and takes its reply. Without a length, takes the first bytes that come."""
    client.sendall(request)
    received = len(client.recv(65536))
    while received < length:
        received += len(client.recv(65536))
    return received


def steps_to_the_poller(pid, seen):
    """Executes instructions until the loop is about to wait. Yields the kind of each
    instruction."""
    registers = (ctypes.c_ulonglong * REGISTERS)()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        begun = False
        while True:
            ptrace(GETREGS, pid, registers)
            where = registers[RIP]
            if where not in seen:
                memory.seek(where)
                seen[where] = kind_of(memory.read(16))
            if begun and seen[where] == "syscall" and registers[RAX] in WAITS:
                return
            begun = True
            yield seen[where]
            ptrace(SINGLESTEP, pid)
            os.waitpid(pid, 0)


def measure(program, service, architecture):
    arguments = [program, "serve", service, "--listen=127.0.0.1:0", "-a", architecture]
    server = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        host, port = server.stdout.readline().rsplit(maxsplit=1)[1].split(":")
        client = socket.create_connection((host, int(port)), timeout=10)
        request = REQUESTS[service]
        length = ask(client, request, 0)
        for _ in range(100):
            ask(client, request, length)
        ptrace(ATTACH, server.pid)
        os.waitpid(server.pid, 0)
        seen, measured = {}, []
        client.sendall(request)
        # The wait that was interrupted may return without the request.
        while not select.select([client], [], [], 0)[0]:
            for _ in steps_to_the_poller(server.pid, seen):
                pass
        for _ in range(20):
            ask(client, b"", length)
            client.sendall(request)
            counted = collections.Counter()
            for kind in steps_to_the_poller(server.pid, seen):
                counted["all"] += 1
                counted[kind] += 1
            measured.append(counted)
        ptrace(DETACH, server.pid)
        measured = sorted(measured, key=lambda counted: (counted["lock"], counted["all"]))
        median = measured[len(measured) // 2]
        print(f"{service} under {architecture}: {median['all']} instructions, {median['syscall']} system calls and "
              f"{median['lock']} atomic read-modify-writes; the most of twenty: {measured[-1]['lock']}")
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()


def main():
    if platform.machine() != "x86_64" or len(sys.argv) < 2:
        sys.exit(__doc__)
    service = sys.argv[2] if len(sys.argv) > 2 else "http"
    for architecture in sys.argv[3:] or ["epoll", "uthreads"]:
        measure(sys.argv[1], service, architecture)


if __name__ == "__main__":
    main()
