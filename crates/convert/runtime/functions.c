/* Functions that are called by their addresses: `rt_coroutine_of`. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../include/duality_convert.h"

#include <stdint.h>
#include <string.h>

/* In front of a function that may block: pass/indirect.cpp. */
struct note {
    unsigned shape, magic, zero, number;
};
enum { MAGIC = 0x44554e54 };

/* The program's own code, from the linker. */
extern const char __executable_start[] __attribute__((visibility("hidden"))), etext[] __attribute__((visibility("hidden")));

void *rt_coroutine_of(void *function, unsigned shape, void *const coroutines[]) {
    uintptr_t at = (uintptr_t)function;
    /* A function of a library has no note, and perhaps nothing in front of it. */
    if (at < (uintptr_t)__executable_start + sizeof(struct note) || at >= (uintptr_t)etext) return NULL;
    struct note note;
    memcpy(&note, (char *)function - sizeof note, sizeof note);
    if (note.magic != MAGIC || note.zero) return NULL;
    return note.number && note.shape == shape ? coroutines[note.number] : function;
}
