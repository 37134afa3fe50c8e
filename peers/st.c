/* State Threads 1.9 (libst-dev): user-level threads on one kernel thread.
 *
 * State Threads has no yield. Its documentation offers st_usleep(0) instead, which goes through the
 * timers. Two threads wake each other by condition variables, which need no mutex here. So
 * `switch`, `alternate` and `condition` are the same.
 */
#include "peer.h"

#include <st.h>

static uint64_t remaining;

static st_thread_t start(void *(*body)(void *), void *argument)
{
    st_thread_t thread = st_thread_create(body, argument, 1, 0);
    must(thread != NULL, "st_thread_create");
    return thread;
}

static void *nothing(void *argument)
{
    return argument;
}

static uint64_t spawn(uint64_t *count)
{
    uint64_t start_time = now();
    for (uint64_t i = 0; i < *count; i++)
        st_thread_join(start(nothing, NULL), NULL);
    return now() - start_time;
}

static st_cond_t told[2];
static int turn;

static void *play(void *argument)
{
    int me = argument != NULL;
    for (uint64_t i = remaining; i > 0; i--) {
        while (turn != me)
            st_cond_wait(told[me]);
        turn = !me;
        st_cond_signal(told[!me]);
    }
    return NULL;
}

static uint64_t condition(uint64_t *count)
{
    remaining = *count;
    told[0] = st_cond_new();
    told[1] = st_cond_new();
    uint64_t start_time = now();
    st_thread_t other = start(play, told);
    play(NULL);
    st_thread_join(other, NULL);
    return now() - start_time;
}

static void *yield_often(void *argument)
{
    for (uint64_t i = remaining; i > 0; i--)
        st_usleep(0);
    return argument;
}

static uint64_t yields(uint64_t *count, uint64_t threads)
{
    st_thread_t *running = calloc(threads, sizeof *running);
    remaining = (*count + threads - 1) / threads;
    *count = remaining * threads;
    uint64_t start_time = now();
    for (uint64_t i = 0; i < threads; i++)
        running[i] = start(yield_often, NULL);
    for (uint64_t i = 0; i < threads; i++)
        st_thread_join(running[i], NULL);
    return now() - start_time;
}

static uint64_t yield_2(uint64_t *count)
{
    return yields(count, 2);
}

static uint64_t yield_1000(uint64_t *count)
{
    return yields(count, 1000);
}

static st_mutex_t mutex;

static uint64_t lock(uint64_t *count)
{
    mutex = st_mutex_new();
    uint64_t start_time = now();
    for (uint64_t i = 0; i < *count; i++) {
        st_mutex_lock(mutex);
        st_mutex_unlock(mutex);
    }
    return now() - start_time;
}

static void *lock_often(void *argument)
{
    for (uint64_t i = remaining; i > 0; i--) {
        st_mutex_lock(mutex);
        st_usleep(0);
        st_mutex_unlock(mutex);
        st_usleep(0);
    }
    return argument;
}

static uint64_t contended(uint64_t *count)
{
    remaining = (*count + 1) / 2;
    *count = remaining * 2;
    mutex = st_mutex_new();
    uint64_t start_time = now();
    st_thread_t other = start(lock_often, NULL);
    lock_often(NULL);
    st_thread_join(other, NULL);
    return now() - start_time;
}

static uint64_t waiting;

static void *wait_for_ever(void *argument)
{
    waiting++;
    st_cond_wait(told[0]);
    return argument;
}

static uint64_t memory(uint64_t *count)
{
    uint64_t started = 0;
    told[0] = st_cond_new();
    uint64_t before = own_memory();
    while (started < *count && st_thread_create(wait_for_ever, NULL, 0, 0) != NULL)
        started++;
    while (waiting < started)
        st_usleep(0);
    *count = started;
    return own_memory() - before;
}

static void *sleep_often(void *argument)
{
    for (uint64_t i = remaining; i > 0; i--)
        st_usleep(1000);
    return argument;
}

/* Measures processor time, since elapsed time is mostly the sleep itself. */
static uint64_t sleep_(uint64_t *count)
{
    st_thread_t sleeping[SLEEPERS];
    remaining = (*count + SLEEPERS - 1) / SLEEPERS;
    *count = remaining * SLEEPERS;
    uint64_t start_time = processor_time();
    for (int i = 0; i < SLEEPERS; i++)
        sleeping[i] = start(sleep_often, NULL);
    for (int i = 0; i < SLEEPERS; i++)
        st_thread_join(sleeping[i], NULL);
    return processor_time() - start_time;
}

int main(int argc, char **argv)
{
    static const struct cost costs[] = {
        {"spawn", "ns", spawn},
        {"switch", "ns", condition},
        {"alternate", "ns", condition}, /* cheaper than its timers */
        {"yield-2", "ns", yield_2},
        {"yield-1000", "ns", yield_1000},
        {"lock", "ns", lock},
        {"contended", "ns", contended},
        {"condition", "ns", condition},
        {"sleep", "ns", sleep_},
        {"memory", "bytes", memory},
        {NULL, NULL, NULL},
    };
    must(st_init() == 0, "st_init");
    return peer_main(argc, argv, costs);
}
