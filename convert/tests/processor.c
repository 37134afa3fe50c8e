/* Each thread has its own processor time. All threads together have used no more time than the
 * process.
 * Runtime: product */
#include "test.h"
enum { BURNERS = 3, BURNT = 20 };
static const long MILLISECOND = 1000000;
static long used[BURNERS + 3];
static int told[2], asked[2];
static long time_on(clockid_t clock) {
    struct timespec time;
    CHECK(clock_gettime(clock, &time) == 0);
    return time.tv_sec * 1000000000l + time.tv_nsec;
}
static long own(void) { return time_on(CLOCK_THREAD_CPUTIME_ID); }
static long all(void) { return time_on(CLOCK_PROCESS_CPUTIME_ID); }
static NOINLINE void compute(void) {
    static volatile long sum;
    for (long index = 0; index < 100000; index++) sum += index;
}
static NOINLINE long burn(bool waits) {
    long before = own(), last = before, next;
    do {
        compute();
        if (waits) WAIT();
        next = own();
        CHECK(next >= last && next <= all());
        last = next;
    } while (last < before + BURNT * MILLISECOND);
    return last;
}
static void *burns(void *argument) {
    long before = all();
    long mine = burn((long)argument != 1);
    CHECK(mine >= BURNT * MILLISECOND && all() - before >= BURNT * MILLISECOND);
    used[(long)argument] = own();
    return argument;
}
/* Waits while others compute. */
static void *idle(void *argument) {
    for (int index = 0; index < 50; index++) {
        long before = own();
        WAIT();
        CHECK(own() >= before);
    }
    used[(long)argument] = own();
    return argument;
}
static void *computes_or_waits(void *argument) { return (long)argument < BURNERS ? burns(argument) : idle(argument); }
/* ---- On other stacks, and by another thread ---- */
static int compare(const void *one, const void *other) {
    static long last;
    compute();
    WAIT();
    CHECK(own() >= last);
    last = own();
    return *(const int *)one - *(const int *)other;
}
static void *sorts(void *argument) {
    int numbers[] = {5, 3, 4, 1, 2};
    long before = own();
    qsort(numbers, 5, sizeof(int), compare);
    CHECK(own() > before);
    WAIT();
    burn(false);
    used[BURNERS + 1] = own();
    return argument;
}
static void *is_asked(void *argument) {
    clockid_t clock;
    char byte;
    CHECK(pthread_getcpuclockid(pthread_self(), &clock) == 0);
    long first = own(), between = time_on(clock), last = own();
    CHECK(first <= between && between <= last);
    used[BURNERS + 2] = burn(true);
    CHECK(write(told[1], "t", 1) == 1);
    CHECK(read(asked[0], &byte, 1) == 1);
    used[BURNERS + 2] = own();
    return argument;
}
static void asks(void) {
    pthread_t thread;
    clockid_t clock;
    char byte;
    CHECK(pthread_create(&thread, NULL, is_asked, NULL) == 0);
    CHECK(pthread_getcpuclockid(thread, &clock) == 0);
    CHECK(time_on(clock) >= 0);
    CHECK(read(told[0], &byte, 1) == 1);
    long seen = time_on(clock);
    CHECK(seen >= used[BURNERS + 2] && seen <= all());
    CHECK(write(asked[1], "a", 1) == 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(used[BURNERS + 2] >= seen);
}
int main(void) {
    CHECK(pipe(told) == 0 && pipe(asked) == 0);
    long before = own();
    burn(false);
    run_many(BURNERS + 1, computes_or_waits);
    run(sorts, NULL);
    asks();
    long sum = own();
    CHECK(sum >= before + BURNT * MILLISECOND);
    for (int index = 0; index < BURNERS + 3; index++) sum += used[index];
    CHECK(sum <= all());
    CHECK(sum >= (BURNERS + 3) * BURNT * MILLISECOND);
    printf("%d threads\n", BURNERS + 3);
}
