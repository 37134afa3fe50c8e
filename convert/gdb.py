"""Shows the calls of converted threads that wait, in gdb:

    gdb -x convert/gdb.py PROGRAM
    (gdb) duality-threads
    (gdb) duality-stack HANDLE

duality-threads shows all converted threads that wait, with their calls. HANDLE is an expression for
a `struct rt_handle *`: a frame, or the handle that the innermost frame waits for. Each line is one
coroutine, the innermost first, with the address of its frame and the place of its function.
"""

import gdb

SUFFIXES = (".resume", ".async")


def function_of(address):
    """The name and the place of the function with the coroutine that resumes at the address. None
    for a function of a runtime."""
    text = gdb.execute(f"info symbol {address:#x}", to_string=True)
    name = text.split()[0]
    # gdb shows `f.async.resume` of a C program as `f[async][resume]` if the program has debugging
    # information.
    plain = name.replace("[", ".").replace("]", "")
    if not plain.endswith(".async.resume"):
        return None
    for suffix in SUFFIXES:
        plain = plain[: -len(suffix)]
    place = gdb.find_pc_line(address)
    return plain, f"{place.symtab}:{place.line}" if place.symtab else "?"


class Stack(gdb.Command):
    """duality-stack HANDLE: the calls of a converted thread that waits."""

    def __init__(self):
        super().__init__("duality-stack", gdb.COMMAND_STACK, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        if show(int(gdb.parse_and_eval(argument))) == 0:
            print("no coroutine waits there")


class Threads(gdb.Command):
    """duality-threads: the converted threads that wait, and their calls."""

    def __init__(self):
        super().__init__("duality-threads", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        try:
            place = int(gdb.parse_and_eval("(unsigned long)&duality_tasks"))
        except gdb.error:
            print("the program has no converted threads")
            return
        # runtime/memory.c
        first, used, size, state, parked, parent = words(place, 6)
        first, used = words(first, 1)[0], words(used, 1)[0]
        waiting = 0
        for task in range(first, first + used, size):
            if byte(task + state) == parked:
                waiting += 1
                print(f"thread {task:#x}")
                show(words(task + parent, 1)[0])
        print(f"{waiting} converted threads wait")


def words(address, count):
    """Words of the program's memory."""
    memory = gdb.Value(address).cast(gdb.lookup_type("unsigned long").pointer())
    return [int(memory[index]) for index in range(count)]


def byte(address):
    return int(gdb.Value(address).cast(gdb.lookup_type("unsigned char").pointer())[0])


def show(handle):
    """Shows a coroutine and the coroutines that wait for it. Returns their number."""
    depth = 0
    while handle:
        # include/duality_convert.h
        resume, _, parent = words(handle, 3)
        found = function_of(resume) if resume else None
        if found:
            print(f"#{depth}  {handle:#x}  {found[0]} ({found[1]})")
            depth += 1
        handle = parent
    return depth


Stack()
Threads()
