#!/usr/bin/env python3
"""Generates small threaded C programs that print the same whatever the order of their threads.

    fuzz.py SEED > program.c

The functions of a program call each other directly, by pointers and with variable arguments. The
functions wait for sockets, locks, semaphores, conditions, times and turns. Across these waits the
functions keep values in variables, buffers, structs and variable-length arrays. Each thread
computes a sum, and the program prints all sums. A program ends by itself: each thread has a limited
number of calls.
"""

import random
import sys

TYPES = {
    "long": "unsigned long",
    "int": "unsigned",
    "char": "unsigned char",
    "double": "double",
    "small": "struct small",
    "large": "struct large",
    "wide": "unsigned __int128",
}

PRELUDE = """#include "test.h"
#include <math.h>
struct small { unsigned a; unsigned char b; };
struct large { unsigned long a[7]; unsigned char b[30]; double c; };
struct context { unsigned long sum; int fuel, socket; long number; };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static unsigned long shared;
static __thread unsigned long own = 17;
static NOINLINE unsigned long touch(unsigned long value) { return own = own * 31 + value; }
static inline unsigned long of_double(double value) { return isfinite(value) ? (unsigned long)(long)fmod(value, 1e9) : 7; }
static inline unsigned long of_small(struct small value) { return value.a * 3ul + value.b; }
static inline unsigned long of_large(struct large value) { return value.a[0] + value.a[6] * 5 + value.b[29] + of_double(value.c); }
static inline struct small to_small(unsigned long value) { return (struct small){(unsigned)value, (unsigned char)(value >> 5)}; }
static inline struct large to_large(unsigned long value) {
    struct large result;
    memset(&result, (int)(value & 255), sizeof result);
    result.c = (double)(value % 1000);
    return result;
}
static void trip(struct context *context, unsigned char *bytes, size_t size) {
    size_t got = 0;
    CHECK(write(context->socket, bytes, size) == (ssize_t)size);
    memset(bytes, 0, size);
    while (got < size) {
        ssize_t count = read(context->socket, bytes + got, size - got);
        CHECK(count > 0);
        got += count;
    }
}
"""

MAIN = """
enum { THREADS = %d };
static int sockets[THREADS][2];
static struct context contexts[THREADS];
static void *echo(void *argument) {
    int descriptor = sockets[(long)argument][1];
    char bytes[100];
    ssize_t count;
    while ((count = read(descriptor, bytes, sizeof bytes)) > 0) CHECK(write(descriptor, bytes, count) == count);
    return NULL;
}
static void *start(void *argument) {
    struct context *context = argument;
    for (int round = 0; round < 3; round++) {
        context->fuel = %d;
        %s
    }
    context->sum += own;
    shutdown(context->socket, SHUT_WR);
    return context;
}
int main(void) {
    pthread_t threads[2 * THREADS];
    sem_init(&semaphore, 0, 2);
    for (long index = 0; index < THREADS; index++) {
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[index]) == 0);
        contexts[index] = (struct context){index, 0, sockets[index][0], index};
        CHECK(pthread_create(&threads[2 * index], NULL, echo, (void *)index) == 0);
        CHECK(pthread_create(&threads[2 * index + 1], NULL, start, &contexts[index]) == 0);
    }
    for (int index = 0; index < 2 * THREADS; index++) CHECK(pthread_join(threads[index], NULL) == 0);
    for (int index = 0; index < THREADS; index++) printf("%%lu\\n", contexts[index].sum);
    printf("%%lu\\n", shared);
}
"""


class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.count = self.random.randint(3, 9)
        self.functions = [self.signature(index) for index in range(self.count)]
        self.names = 0

    def signature(self, index):
        kinds = [self.random.choice(list(TYPES)) for _ in range(self.random.randint(0, 8))]
        result = self.random.choice(list(TYPES) + ["void"])
        form = self.random.choice(["plain", "plain", "plain", "variable", "pointer"])
        if form == "pointer":
            # All functions that are called by pointers have one type, so that a pointer may lead to several.
            kinds, result = ["long"], "long"
        return {"name": f"f{index}", "kinds": kinds, "result": result, "form": form}

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def number(self, variables):
        """An expression of type unsigned long."""
        pick = self.random.randint(0, 5)
        if pick == 0 or not variables:
            return f"{self.random.randint(0, 1 << 40)}ul"
        name, kind = self.random.choice(variables)
        value = self.as_number(name, kind)
        if pick <= 2:
            return value
        return f"({value} {self.random.choice(['+', '*', '^', '-'])} {self.number(variables)})"

    @staticmethod
    def as_number(text, kind):
        if kind in ("double", "small", "large"):
            return f"of_{kind}({text})"
        return f"(unsigned long)({text})"

    @staticmethod
    def from_number(text, kind):
        if kind in ("small", "large"):
            return f"to_{kind}({text})"
        if kind == "double":
            return f"(double)(({text}) % 100000) / 8"
        return f"({TYPES[kind]})({text})"

    def call(self, caller, variables):
        """A call of a later function, as an expression of type unsigned long; None if there is no
        later function."""
        later = self.functions[caller + 1 :]
        if not later:
            return None
        callee = self.random.choice(later)
        arguments = [self.from_number(self.number(variables), kind) for kind in callee["kinds"]]
        if callee["form"] == "variable":
            # The string says the kinds of the arguments that the callee reads.
            kinds = [self.random.choice("ildsL") for _ in range(self.random.randint(0, 9))]
            as_kind = {"i": "int", "l": "long", "d": "double", "s": "small", "L": "large"}
            more = [self.from_number(self.number(variables), as_kind[kind]) for kind in kinds]
            arguments = arguments + ['"' + "".join(kinds) + '"'] + more
        target = callee["name"]
        if callee["form"] == "pointer":
            same = [f for f in later if f["form"] == "pointer"]
            target = f"TABLE{caller}[({self.number(variables)}) % {len(same)}]"
        text = f"{target}({', '.join(['context'] + arguments)})"
        if callee["result"] == "void":
            return f"({text}, 3ul)"
        return self.as_number(text, callee["result"])

    def wait(self, variables, indent):
        pick = self.random.randint(0, 9)
        if pick <= 2:
            return [indent + "WAIT();"]
        if pick == 3:
            return [indent + "usleep(1);"]
        if pick == 4:
            return [indent + "{ struct pollfd entry = {context->socket, POLLOUT, 0}; CHECK(poll(&entry, 1, 1000) == 1); }"]
        if pick == 5:
            inside = indent + "    "
            return (
                [indent + "pthread_mutex_lock(&lock);"]
                + ([inside + "WAIT();"] if self.random.random() < 0.5 else [])
                + [inside + f"shared += {self.number(variables)} * 0 + 1;", indent + "pthread_mutex_unlock(&lock);"]
            )
        if pick == 6:
            return [indent + "sem_wait(&semaphore);", indent + "WAIT();", indent + "sem_post(&semaphore);"]
        if pick == 7:
            how = self.random.choice(["rd", "wr"])
            return [indent + f"pthread_rwlock_{how}lock(&rwlock);", indent + "WAIT();", indent + "pthread_rwlock_unlock(&rwlock);"]
        if pick == 8:
            return [
                indent + "{ struct timespec until = in_milliseconds(CLOCK_REALTIME, 1); pthread_mutex_lock(&lock);",
                indent + "pthread_cond_timedwait(&condition, &lock, &until); pthread_mutex_unlock(&lock); }",
            ]
        value = self.random.randint(1, 100)
        return [indent + f"errno = {value};", indent + "WAIT();", indent + f"CHECK(errno == {value});"]

    def statements(self, caller, variables, depth, indent):
        lines = []
        variables = list(variables)
        for _ in range(self.random.randint(1, 4 if depth else 6)):
            pick = self.random.randint(0, 13)
            if pick <= 1:
                name, kind = self.name(), self.random.choice(list(TYPES))
                lines.append(f"{indent}{TYPES[kind]} {name} = {self.from_number(self.number(variables), kind)};")
                variables.append((name, kind))
            elif pick <= 4:
                lines += self.wait(variables, indent)
            elif pick <= 6:
                call = self.call(caller, variables)
                if call:
                    lines.append(f"{indent}context->sum = context->sum * 7 + {call};")
            elif pick == 7 and any(name.isidentifier() for name, _ in variables):
                name, kind = self.random.choice([entry for entry in variables if entry[0].isidentifier()])
                lines.append(f"{indent}{name} = {self.from_number(self.number(variables), kind)};")
            elif pick == 8:
                name, size = self.name(), self.random.randint(1, 90)
                lines += [
                    f"{indent}unsigned char {name}[{size}];",
                    f"{indent}memset({name}, (int)({self.number(variables)} & 255), {size});",
                    f"{indent}trip(context, {name}, {size});",
                    f"{indent}context->sum += {name}[{self.random.randrange(size)}];",
                ]
                variables.append((f"{name}[{self.random.randrange(size)}]", "char"))
            elif pick == 9 and depth < 3:
                lines.append(f"{indent}if ({self.number(variables)} % 3 != {self.random.randint(0, 2)}) {{")
                lines += self.statements(caller, variables, depth + 1, indent + "    ")
                if self.random.random() < 0.4:
                    lines.append(f"{indent}}} else {{")
                    lines += self.statements(caller, variables, depth + 1, indent + "    ")
                lines.append(indent + "}")
            elif pick == 10 and depth < 2:
                name = self.name()
                lines.append(f"{indent}for (unsigned {name} = 0; {name} < {self.random.randint(1, 4)}; {name}++) {{")
                lines += self.statements(caller, variables + [(name + " * 1u", "int")], depth + 1, indent + "    ")
                if self.random.random() < 0.3:
                    lines.append(f"{indent}    if ({self.number(variables)} % 5 == 0) {self.random.choice(['break', 'continue'])};")
                lines.append(indent + "}")
            elif pick == 11:
                name, size = self.name(), self.number(variables)
                lines += [
                    f"{indent}unsigned {name}[{size} % 20 + 1];",
                    f"{indent}for (size_t i = 0; i < sizeof {name} / sizeof *{name}; i++) {name}[i] = i * 3;",
                    f"{indent}WAIT();",
                    f"{indent}context->sum += {name}[sizeof {name} / sizeof *{name} - 1];",
                ]
            elif pick == 12:
                name = self.name()
                lines.append(f"{indent}unsigned long {name} = 5, *volatile {name}_address = &{name};")
                lines += self.wait(variables, indent)
                lines.append(f"{indent}*{name}_address += {self.number(variables)};")
                variables.append((name, "long"))
            else:
                lines.append(f"{indent}context->sum += touch({self.number(variables)});")
        lines.append(f"{indent}context->sum += {self.number(variables)};")
        return lines

    def heading(self, function):
        parameters = [f"{TYPES[kind]} p{index}" for index, kind in enumerate(function["kinds"])]
        if function["form"] == "variable":
            parameters += ["const char *format", "..."]
        result = "void" if function["result"] == "void" else TYPES[function["result"]]
        return f"static NOINLINE {result} {function['name']}({', '.join(['struct context *context'] + parameters)})"

    def body(self, index, function):
        variables = [(f"p{number}", kind) for number, kind in enumerate(function["kinds"])]
        value = "" if function["result"] == "void" else " " + self.from_number("context->sum", function["result"])
        lines = [self.heading(function) + " {", f"    if (context->fuel-- <= 0) return{value};"]
        if function["form"] == "variable":
            lines += [
                "    va_list list;",
                "    va_start(list, format);",
                "    for (; *format; format++) {",
                "        WAIT();",
                "        switch (*format) {",
                "        case 'i': context->sum += va_arg(list, unsigned); break;",
                "        case 'l': context->sum += va_arg(list, unsigned long); break;",
                "        case 'd': context->sum += of_double(va_arg(list, double)); break;",
                "        case 's': context->sum += of_small(va_arg(list, struct small)); break;",
                "        case 'L': context->sum += of_large(va_arg(list, struct large)); break;",
                "        }",
                "    }",
                "    va_end(list);",
            ]
        lines += self.statements(index, variables, 0, "    ")
        if self.random.random() < 0.3 and function["form"] != "variable":
            arguments = [self.from_number(self.number(variables), kind) for kind in function["kinds"]]
            text = f"{function['name']}({', '.join(['context'] + arguments)})"
            more = f"({text}, 1ul)" if function["result"] == "void" else self.as_number(text, function["result"])
            lines.append(f"    context->sum += {more};")
        if function["result"] != "void":
            lines.append(f"    return {self.from_number(self.number(variables) + ' + context->sum', function['result'])};")
        return lines + ["}"]

    def text(self):
        lines = [PRELUDE]
        lines += [self.heading(function) + ";" for function in self.functions]
        for index in range(-1, self.count):
            same = [f["name"] for f in self.functions[index + 1 :] if f["form"] == "pointer"]
            if same:
                name = f"TABLE{index if index >= 0 else 'S'}"
                lines.append(f"static unsigned long (*const {name}[])(struct context *, unsigned long) = {{{', '.join(same)}}};")
        for index, function in enumerate(self.functions):
            lines += self.body(index, function)
        first = self.functions[0]
        arguments = [self.from_number("context->sum", kind) for kind in first["kinds"]]
        if first["form"] == "variable":
            arguments += ['"ild"', "1u", "2ul", "3.5"]
        call = f"{first['name']}({', '.join(['context'] + arguments)})"
        call = call + ";" if first["result"] == "void" else f"context->sum += {self.as_number(call, first['result'])};"
        lines.append(MAIN % (self.random.randint(1, 6), self.random.randint(10, 60), call))
        return "\n".join(lines)


if __name__ == "__main__":
    print(Program(int(sys.argv[1])).text())
