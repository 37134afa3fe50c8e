/* The report warns of a lock held across a wait, and of a lost update, and of no other code. */
#include "test.h"
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long balance, safe;
static NOINLINE void waits(void) { WAIT(); }
static NOINLINE void loses(long by) {
    long before = balance;
    waits();
    balance = before + by;
}
static NOINLINE void holds(long by) {
    pthread_mutex_lock(&lock);
    long before = safe;
    waits();
    safe = before + by;
    pthread_mutex_unlock(&lock);
}
static NOINLINE void fill(char *bytes, size_t size) { memset(bytes, 1, size); }
static NOINLINE char last(const char *bytes, size_t size) { return bytes[size - 1]; }
static NOINLINE long many(void) {
    char buffer[1000], dead[500];
    fill(buffer, sizeof buffer);
    fill(dead, sizeof dead);
    long total = dead[7];
    waits();
    return total + last(buffer, sizeof buffer);
}
static NOINLINE void explains(void) {
    const char *text = strerror(2);
    waits();
    struct rusage used; CHECK(text && getrusage(RUSAGE_THREAD, &used) == 0);
}
static void *start(void *argument) {
    loses(1);
    holds(1);
    explains();
    return (void *)(many() + (long)argument);
}
static void *never_waits(void *argument) { return argument; }
int main(void) {
    printf("%ld %ld %ld\n", (long)run(start, NULL), (long)run(never_waits, (void *)5), safe);
}
