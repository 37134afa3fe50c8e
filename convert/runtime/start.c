/* Finds the engine: the engine of `duality run` if it started the program, or the engine in the
 * executable. */
#include "runtime.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
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

/* ---- Memory ----
 *
 * The file in memory is the process's own, and all processes of the program share the executable.
 * So the parts that are only read are mapped from the executable, and leave the file. */

enum { PAGE = 4096 };

static uintptr_t page_after(uintptr_t place) { return (place + PAGE - 1) & -(uintptr_t)PAGE; }

struct place {
    uintptr_t address;
    off_t offset; /* in the executable; -1: not found */
};

/* dl_iterate_phdr calls this for the executable first. */
static int find_in_executable(struct dl_phdr_info *object, size_t size, void *argument) {
    struct place *place = argument;
    (void)size;
    for (unsigned index = 0; index < object->dlpi_phnum; index++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[index];
        uintptr_t within = place->address - object->dlpi_addr - part->p_vaddr;
        if (part->p_type == PT_LOAD && within < part->p_filesz) place->offset = part->p_offset + within;
    }
    return 1;
}

/* Opens the executable, if the engine is at this place in it. Otherwise returns -1. */
static int open_executable(off_t offset) {
    char found[sizeof(ElfW(Ehdr))];
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    if (pread(file, found, sizeof found, offset) == sizeof found && !memcmp(found, duality_engine_image, sizeof found)) return file;
    close(file);
    return -1;
}

static void share_engine(int file, void *library) {
    struct place place = {(uintptr_t)duality_engine_image, -1};
    struct link_map *loaded;
    dl_iterate_phdr(find_in_executable, &place);
    if (place.offset < 0 || place.offset % PAGE || dlinfo(library, RTLD_DI_LINKMAP, &loaded)) return;
    int executable = open_executable(place.offset);
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)duality_engine_image;
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)(duality_engine_image + header->e_phoff);
    size_t size = duality_engine_image_end - duality_engine_image, written = size, end = 0;
    for (unsigned index = 0; executable >= 0 && index < header->e_phnum; index++) {
        const ElfW(Phdr) *part = &parts[index];
        if (part->p_type != PT_LOAD) continue;
        size_t skipped = part->p_offset % PAGE, offset = part->p_offset - skipped;
        char *start = (char *)loaded->l_addr + part->p_vaddr - skipped;
        bool shared = !(part->p_flags & PF_W);
        if (shared) {
            int protection = (part->p_flags & PF_R ? PROT_READ : 0) | (part->p_flags & PF_X ? PROT_EXEC : 0);
            shared = mmap(start, skipped + part->p_filesz, protection, MAP_PRIVATE | MAP_FIXED, executable, place.offset + offset) == start;
        }
        if (!shared && offset < written) written = offset;
        if (!shared && part->p_offset + part->p_filesz > end) end = part->p_offset + part->p_filesz;
    }
    if (executable < 0) return;
    close(executable);
    fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, written);
    if (page_after(end) < size) fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, page_after(end), size);
    /* The copy above has read the engine in the executable. */
    uintptr_t first = page_after(place.address), last = (place.address + size) & -(uintptr_t)PAGE;
    madvise((void *)first, last - first, MADV_DONTNEED);
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
    if (library) share_engine(file, library);
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
