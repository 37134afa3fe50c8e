/* Finds the engine: that of `duality run`, if the program was started so, else the one in the executable. */
#include "runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where engine.S jumps to. */
__attribute__((visibility("hidden"))) void *engine_entry;

/* The engine, a shared library, as the driver put it into the executable. */
extern const char duality_engine_image[] __attribute__((weak)), duality_engine_image_end[] __attribute__((weak));

unsigned core_count = 1;

void give_up(const char *problem) {
    fprintf(stderr, "duality cc: %s\n", problem);
    abort();
}

static void find_entry(void *library) {
    void **entry = dlsym(library, "duality_engine_entry");
    if (entry) engine_entry = *entry;
}

static unsigned long setting(const char *name, unsigned long otherwise) {
    const char *text = getenv(name);
    if (!text || !*text) return otherwise;
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    return *end ? otherwise : value;
}

/* What the engine would be told by `duality run`. It takes the variable out of the environment. */
static void set_engine(void) {
    const char *poller = getenv("DUALITY_POLLER");
    char text[200];
    snprintf(text, sizeof text, "fd=-1:cores=%u:uring=%d:tick=%lu:stats=%d:children=0:signal=0:stall=0:stack=0:preload=", core_count,
             poller && !strcmp(poller, "uring"), setting("DUALITY_TICK", 10000), getenv("DUALITY_STATS") != NULL);
    if (setenv("DUALITY_RUN", text, 1)) give_up("out of memory for the engine's settings");
}

static void load_engine(void) {
    size_t size = duality_engine_image_end - duality_engine_image, done = 0;
    if (size == 0) give_up("the program has no engine: link it again with `duality cc`");
    int file = memfd_create("duality-engine", MFD_CLOEXEC);
    while (file >= 0 && done < size) {
        ssize_t count = write(file, duality_engine_image + done, size - done);
        if (count > 0) done += count;
        else if (count < 0 && errno != EINTR) break;
    }
    if (file < 0 || done < size) give_up("the engine cannot be loaded: no memory for its file (memfd_create)");
    char name[40];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    set_engine();
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    unsetenv("DUALITY_RUN");
    if (!library) {
        fprintf(stderr, "duality cc: the engine cannot be loaded: %s\n", dlerror());
        abort();
    }
    close(file);
    find_entry(library);
}

/* Before the constructors of the program, which may start threads. */
__attribute__((constructor(101))) static void start(void) {
    core_count = setting("DUALITY_CORES", 1);
    if (core_count < 1 || core_count > LOOPS) give_up("DUALITY_CORES must be from 1 to 64");
    find_entry(RTLD_DEFAULT);
    if (!engine_entry) load_engine();
    if (!engine_entry || engine(ENGINE_HELLO) != ENGINE_VERSION) {
        give_up("the engine and the program are of different versions: link the program again with `duality cc`");
    }
}
