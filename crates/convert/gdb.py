"""Shows the calls of a converted thread that waits, in gdb:

    gdb -x crates/convert/gdb.py PROGRAM
    (gdb) duality-stack HANDLE

HANDLE is an expression for a `struct rt_handle *`: a frame, or what the innermost frame waits for. Each line is one
coroutine, the innermost first, with the address of its frame and the place of its function.
"""

import gdb

SUFFIXES = (".resume", ".async")


def function_of(address):
    """The name of the function whose coroutine resumes at the address, and its place; None where it is a runtime's."""
    text = gdb.execute(f"info symbol {address:#x}", to_string=True)
    name = text.split()[0]
    # gdb shows `f.async.resume` of a C program as `f[async][resume]` where it has its debugging information.
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
        word = gdb.lookup_type("unsigned long").pointer()
        handle = int(gdb.parse_and_eval(argument))
        depth = 0
        while handle:
            # resume, destroy, parent: include/duality_convert.h.
            words = gdb.Value(handle).cast(word)
            resume, parent = int(words[0]), int(words[2])
            found = function_of(resume) if resume else None
            if found:
                print(f"#{depth}  {handle:#x}  {found[0]} ({found[1]})")
                depth += 1
            handle = parent
        if depth == 0:
            print("no coroutine waits there")


Stack()
