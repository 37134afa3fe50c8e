/* Finds the engine: the engine of `duality run` if it started the program, or the engine in the
 * executable. */
#include "runtime.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

/* The address to which engine.S jumps. */
__attribute__((visibility("hidden"))) void *engine_entry;

/* The engine, a shared library, as the driver put it into the executable. */
extern const char duality_engine_image[] __attribute__((weak)), duality_engine_image_end[] __attribute__((weak));

/* MFD_EXEC, which older headers do not have. */
enum { EXECUTABLE = 0x10 };

unsigned core_count = 1;

void give_up(const char *problem) {
    fprintf(stderr, "duality cc: %s\n", problem);
    abort();
}

static unsigned long setting(const char *name, unsigned long otherwise) {
    const char *text = secure_getenv(name);
    if (!text || !*text) return otherwise;
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    return *end ? otherwise : value;
}

/* Starts the engine with the settings that `duality run` would give a program. */
static void start_engine(void *library) {
    void (*start)(const char *, unsigned long, unsigned long);
    void *found = dlsym(library, "duality_engine_start");
    if (!found) return;
    memcpy(&start, &found, sizeof start);
    const char *poller = secure_getenv("DUALITY_POLLER");
    char text[200];
    int length = snprintf(text, sizeof text, "cores=%u:uring=%d:tick=%lu:stats=%d", core_count, poller && !strcmp(poller, "uring"),
                          setting("DUALITY_TICK", 10000), secure_getenv("DUALITY_STATS") != NULL);
    /* The engine also reports system calls that take so long. A value that is no number is
     * ignored. */
    unsigned long stall = setting("DUALITY_STALL", ULONG_MAX);
    if (stall != ULONG_MAX) snprintf(text + length, sizeof text - length, ":stall=%lu:held=%lu", stall, stall);
    start(text, getauxval(AT_SYSINFO_EHDR), getauxval(AT_HWCAP2));
}

/* The engine in this library, if it has been started. */
static void find_entry(void *library) {
    void **entry = dlsym(library, "duality_engine_entry");
    if (entry) engine_entry = *entry;
}

static void load_engine(void) {
    size_t size = duality_engine_image_end - duality_engine_image, done = 0;
    if (size == 0) give_up("the program has no engine: link it again with `duality cc`");
    /* Some systems make such files non-executable without the flag. Older kernels do not know the
     * flag. */
    int file = memfd_create("duality-engine", MFD_CLOEXEC | EXECUTABLE);
    if (file < 0) file = memfd_create("duality-engine", MFD_CLOEXEC);
    while (file >= 0 && done < size) {
        ssize_t count = write(file, duality_engine_image + done, size - done);
        if (count > 0) done += count;
        else if (count < 0 && errno != EINTR) break;
    }
    if (file < 0 || done < size) give_up("the engine cannot be loaded: no memory for its file (memfd_create)");
    /* Debuggers open the file by this name. So the name has this process's number, because
     * "/proc/self" would be the debugger. The descriptor's number is high, so that the program is
     * unlikely to use it for a pipe. */
    int high = fcntl(file, F_DUPFD_CLOEXEC, 900);
    if (high >= 0) {
        close(file);
        file = high;
    }
    char name[40];
    snprintf(name, sizeof name, "/proc/%d/fd/%d", getpid(), file);
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    close(file);
    if (!library) {
        fprintf(stderr, "duality cc: the engine cannot be loaded: %s\n", dlerror());
        abort();
    }
    start_engine(library);
    find_entry(library);
}

/* Runs before the constructors of the program, which may start threads. */
__attribute__((constructor(101))) static void start(void) {
    core_count = setting("DUALITY_CORES", 1);
    if (core_count < 1 || core_count > LOOPS) give_up("DUALITY_CORES must be from 1 to 64");
    find_entry(RTLD_DEFAULT);
    if (!engine_entry) load_engine();
    if (!engine_entry || engine(ENGINE_HELLO) != ENGINE_VERSION) {
        give_up("the engine and the program are of different versions: link the program again with `duality cc`");
    }
}
