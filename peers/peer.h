/* Shared by the peers in C: the command line, the clock, memory and the output line.
 *
 *     PEER COST COUNT     prints     COST COUNT TOTAL ns|bytes     (README.md)
 *
 * A peer is one file. It lists its costs and passes them to `peer_main`. A cost is a function. It
 * does its operation `count` times, and returns the time or memory used. crates/costs/src/tasks.rs
 * describes the costs. Peers keep the names and the order of that file.
 */
#ifndef PEER_H
#define PEER_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct cost {
    const char *name;
    const char *unit;
    /* Does the operation `*count` times, or as often as possible, and stores that number in
     * `*count`. */
    uint64_t (*measure)(uint64_t *count);
};

/* Ends the program with a message that says what failed. */
static inline void must(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "%s failed\n", what);
        exit(1);
    }
}

/* Nanoseconds on a clock that only goes forward. */
static inline uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* This process's processor time, in nanoseconds. */
static inline uint64_t processor_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* How many threads sleep at a time in the cost `sleep`. */
enum { SLEEPERS = 100 };

/* This process's anonymous memory, in bytes. */
static inline uint64_t own_memory(void)
{
    uint64_t kibibytes = 0;
    char line[256];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    must(file != NULL, "/proc/self/smaps_rollup");
    while (fgets(line, sizeof line, file) != NULL && sscanf(line, "Anonymous: %" SCNu64, &kibibytes) != 1)
        continue;
    fclose(file);
    return kibibytes * 1024;
}

/* Measures the cost that the command line names, and prints the result. `costs` ends with an empty
 * entry. */
static inline int peer_main(int argc, char **argv, const struct cost *costs)
{
    uint64_t count = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (count == 0) {
        fprintf(stderr, "usage: %s COST COUNT\n", argv[0]);
        return 2;
    }
    for (const struct cost *cost = costs; cost->name != NULL; cost++) {
        if (strcmp(cost->name, argv[1]) == 0) {
            uint64_t total = cost->measure(&count);
            printf("%s %" PRIu64 " %" PRIu64 " %s\n", cost->name, count, total, cost->unit);
            return 0;
        }
    }
    printf("unavailable it has no such thing\n");
    return 0;
}

#endif
