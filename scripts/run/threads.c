/* The costs of threads: nanoseconds of this process's processor time for each operation. Run the
 * program natively and by `duality run`:
 *
 * ```sh
 * cc -O2 -pthread -o threads scripts/run/threads.c
 * taskset -c 0 ./threads; taskset -c 0 duality run -- ./threads
 * ./threads sleep 100000    # so many sleeping threads: how many there can be, and what each takes
 * ./threads read 15000      # so many threads, which wait for a descriptor each, and are woken
 * ```
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

static void tell(const char *what, double start, double count) {
    printf("%-32s %8.0f ns\n", what, (now() - start) / count);
}

static void *nothing(void *argument) { return argument; }

static void *yield(void *argument) {
    for (long left = (long)argument; left > 0; left--) sched_yield();
    return NULL;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long turn;

enum { HAND_OVERS = 200000, CALLS = 1000000, CREATIONS = 50000, YIELDS = 2000000 };

static void *hand_over(void *argument) {
    pthread_mutex_lock(&mutex);
    for (int left = HAND_OVERS / 2; left > 0; left--) {
        while (turn != (long)argument) pthread_cond_wait(&changed, &mutex);
        turn = !turn;
        pthread_cond_signal(&changed);
    }
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void run(long threads, void *(*function)(void *), long argument, int numbered) {
    pthread_t *all = malloc(threads * sizeof *all);
    for (long index = 0; index < threads; index++) {
        if (pthread_create(&all[index], NULL, function, (void *)(numbered ? index : argument))) exit(1);
    }
    for (long index = 0; index < threads; index++) pthread_join(all[index], NULL);
    free(all);
}

static void costs(void) {
    double start = now();
    for (int left = CALLS; left > 0; left--) gettid();
    tell("gettid", start, CALLS);
    start = now();
    for (int left = CALLS; left > 0; left--) getppid();
    tell("getppid", start, CALLS);
    start = now();
    for (int left = CREATIONS; left > 0; left--) run(1, nothing, 0, 0);
    tell("create and join", start, CREATIONS);
    start = now();
    run(2, hand_over, 0, 1);
    tell("hand over by a condition", start, HAND_OVERS);
    for (long threads = 2; threads <= 1000; threads *= 22) {
        char what[40];
        snprintf(what, sizeof what, "yield among %ld threads", threads);
        start = now();
        run(threads, yield, YIELDS / threads, 0);
        tell(what, start, YIELDS);
    }
}

static long resident_kib(void) {
    char line[200];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status)) sscanf(line, "VmRSS: %ld", &kib);
    fclose(status);
    return kib;
}

static void *sleep_long(void *argument) {
    sleep(1000);
    return argument;
}

static void sleepers(long wanted) {
    pthread_t thread;
    long made = 0, before = resident_kib();
    while (made < wanted && !pthread_create(&thread, NULL, sleep_long, NULL)) made++;
    usleep(500000);
    printf("%ld threads, %.1f KiB each in user memory\n", made, (resident_kib() - before) / (double)made);
    fflush(stdout);
    _exit(made < wanted);
}

static void *read_own(void *argument) {
    long value = 0;
    return (void *)(read((int)(long)argument, &value, sizeof value) - (long)sizeof value + value);
}

static void readers(long wanted) {
    pthread_t *all = malloc(wanted * sizeof *all);
    int *own = malloc(wanted * sizeof *own);
    long made = 0, right = 0, before = resident_kib();
    for (; made < wanted; made++) {
        own[made] = eventfd(0, 0);
        if (own[made] < 0 || pthread_create(&all[made], NULL, read_own, (void *)(long)own[made])) break;
    }
    usleep(500000);
    printf("%ld threads wait, %.1f KiB each in user memory\n", made, (resident_kib() - before) / (double)made);
    for (long index = 0; index < made; index++) {
        long value = index + 1;
        if (write(own[index], &value, sizeof value) < 0) exit(1);
    }
    for (long index = 0; index < made; index++) {
        void *result;
        pthread_join(all[index], &result);
        right += (long)result == index + 1;
    }
    printf("%ld of them read what was written\n", right);
    exit(right < wanted);
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "read")) readers(atol(argv[2]));
    if (argc == 3 && !strcmp(argv[1], "sleep")) sleepers(atol(argv[2]));
    costs();
    return 0;
}
