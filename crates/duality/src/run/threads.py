"""Lists the user-level threads of a program under `duality run`, with their stacks.

    gdb -p PID -x FILE -ex "duality threads" -ex detach -batch
    gdb -p PID -x FILE -ex "duality backtrace" -ex detach -batch      every thread; or: duality backtrace ID

`duality run --gdb-script` prints this file. The script reads the structure that
`crates/engine/src/schedule/inspection.rs` describes.
"""

import struct

import gdb

MAGIC = 0x6475616C69747931
# The fields of the engine's description, in order, each a word.
FIELDS = ["magic", "main", "table", "used", "size", "id", "state", "place", "name", "call", "awaited"]
STATES = ["dead", "ready", "running", "parked"]
# Registers of a thread in a call, by their place in `Frame` (frame.rs).
CALL_REGISTERS = {"r15": 0, "r14": 1, "r13": 2, "r12": 3, "rbp": 4, "rbx": 5, "rsp": 14}
CALL_AFTER, CALL_CALLER = 15, 16
# Registers of a thread that was interrupted, by their place in `Context` (context.rs).
CONTEXT_REGISTERS = {"r12": 9, "r13": 10, "r14": 11, "r15": 12, "rbp": 15, "rbx": 16, "rsp": 20, "rip": 21}


def read(address, length):
    return bytes(gdb.selected_inferior().read_memory(address, length))


def words(address, count):
    return struct.unpack(f"<{count}Q", read(address, 8 * count))


def describe():
    """The engine's description of its threads."""
    worker = int(gdb.parse_and_eval("(unsigned long)$gs_base"))
    if worker == 0:
        raise gdb.GdbError("this program does not run under `duality run`")
    description = dict(zip(FIELDS, words(words(worker + 16, 1)[0], len(FIELDS))))
    if description["magic"] != MAGIC:
        raise gdb.GdbError("another version of the engine than this script's")
    return description


class Thread:
    def __init__(self, description, address):
        def word(field, form):
            return struct.unpack(form, read(address + description[field], struct.calcsize(form)))[0]

        self.id = word("id", "<i")
        self.state = STATES[word("state", "<B")]
        self.place = word("place", "<Q")
        self.name = word("name", "16s").split(b"\0")[0].decode(errors="replace")
        self.call = word("call", "<I")
        self.awaited = word("awaited", "<Q")

    def registers(self):
        """The place where the thread left its own code, or None while the thread runs."""
        if self.state == "running" or not self.place:
            return None
        if self.place & 1:
            saved = words(self.place - 1, 22)
            return {name: saved[index] for name, index in CONTEXT_REGISTERS.items()}
        saved = words(self.place, 17)
        registers = {name: saved[index] for name, index in CALL_REGISTERS.items()}
        registers["rip"] = saved[CALL_CALLER] or saved[CALL_AFTER]
        return registers

    def __str__(self):
        waits = f" in call {self.call} ({self.awaited:#x})" if self.state == "parked" else ""
        return f"thread {self.id} {self.name}: {self.state}{waits}"


def threads():
    description = describe()
    used = words(description["used"], 1)[0]
    table = words(description["table"], 1)[0]
    places = [description["main"]] + [table + index * description["size"] for index in range(used)]
    return [thread for thread in (Thread(description, place) for place in places) if thread.state != "dead"]


class Duality(gdb.Command):
    """User-level threads of `duality run`."""

    def __init__(self):
        super().__init__("duality", gdb.COMMAND_STACK, prefix=True)


class List(gdb.Command):
    """Lists the user-level threads."""

    def __init__(self):
        super().__init__("duality threads", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        for thread in threads():
            print(thread)


class Backtrace(gdb.Command):
    """Shows the stacks of the user-level threads, or of the thread with this number."""

    def __init__(self):
        super().__init__("duality backtrace", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        wanted = int(argument) if argument else None
        names = list(CONTEXT_REGISTERS)
        saved = {name: int(gdb.parse_and_eval(f"(unsigned long)${name}")) for name in names}
        try:
            for thread in threads():
                if wanted is not None and thread.id != wanted:
                    continue
                print(thread)
                registers = thread.registers()
                if registers is None:
                    print("  it runs, or has not begun: see `backtrace`")
                    continue
                for name, value in registers.items():
                    gdb.execute(f"set ${name} = {value}", to_string=True)
                print(gdb.execute("backtrace", to_string=True), end="")
        finally:
            for name, value in saved.items():
                gdb.execute(f"set ${name} = {value}", to_string=True)


Duality()
List()
Backtrace()
