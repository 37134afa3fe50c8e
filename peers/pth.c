/* GNU Pth 2.0.7 (libpth-dev): user-level threads on one kernel thread, chosen by priority.
 *
 * Two threads wake each other by pth_yield(thread), which hands the processor to the named thread.
 */
#include "peer.h"

#include <pth.h>

/* The scheduler searches lists of all threads, so it is very slow with many threads. */
#define MOST_PARKED 1000

static uint64_t remaining;

static pth_t start(void *(*body)(void *), void *argument)
{
    pth_t thread = pth_spawn(PTH_ATTR_DEFAULT, body, argument);
    must(thread != NULL, "pth_spawn");
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
        pth_join(start(nothing, NULL), NULL);
    return now() - start_time;
}

static pth_t players[2];

static void *hand_over(void *argument)
{
    int me = argument != NULL;
    for (uint64_t i = remaining; i > 0; i--)
        pth_yield(players[!me]);
    return NULL;
}

static uint64_t switch_(uint64_t *count)
{
    remaining = *count;
    uint64_t start_time = now();
    players[0] = pth_self();
    players[1] = start(hand_over, players);
    hand_over(NULL);
    pth_join(players[1], NULL);
    return now() - start_time;
}

static void *yield_often(void *argument)
{
    for (uint64_t i = remaining; i > 0; i--)
        pth_yield(NULL);
    return argument;
}

static uint64_t yields(uint64_t *count, uint64_t threads)
{
    pth_t *running = calloc(threads, sizeof *running);
    remaining = (*count + threads - 1) / threads;
    *count = remaining * threads;
    uint64_t start_time = now();
    for (uint64_t i = 0; i < threads; i++)
        running[i] = start(yield_often, NULL);
    for (uint64_t i = 0; i < threads; i++)
        pth_join(running[i], NULL);
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

static pth_mutex_t mutex = PTH_MUTEX_INIT;

static uint64_t lock(uint64_t *count)
{
    uint64_t start_time = now();
    for (uint64_t i = 0; i < *count; i++) {
        pth_mutex_acquire(&mutex, FALSE, NULL);
        pth_mutex_release(&mutex);
    }
    return now() - start_time;
}

static void *lock_often(void *argument)
{
    for (uint64_t i = remaining; i > 0; i--) {
        pth_mutex_acquire(&mutex, FALSE, NULL);
        pth_yield(NULL);
        pth_mutex_release(&mutex);
        pth_yield(NULL);
    }
    return argument;
}

static uint64_t contended(uint64_t *count)
{
    remaining = (*count + 1) / 2;
    *count = remaining * 2;
    uint64_t start_time = now();
    pth_t other = start(lock_often, NULL);
    lock_often(NULL);
    pth_join(other, NULL);
    return now() - start_time;
}

static pth_cond_t told[2] = {PTH_COND_INIT, PTH_COND_INIT};
static int turn;

static void *play(void *argument)
{
    int me = argument != NULL;
    for (uint64_t i = remaining; i > 0; i--) {
        pth_mutex_acquire(&mutex, FALSE, NULL);
        while (turn != me)
            pth_cond_await(&told[me], &mutex, NULL);
        turn = !me;
        pth_cond_notify(&told[!me], FALSE);
        pth_mutex_release(&mutex);
    }
    return NULL;
}

static uint64_t condition(uint64_t *count)
{
    remaining = *count;
    uint64_t start_time = now();
    pth_t other = start(play, told);
    play(NULL);
    pth_join(other, NULL);
    return now() - start_time;
}

static uint64_t waiting;

static void *wait_for_ever(void *argument)
{
    waiting++;
    pth_mutex_acquire(&mutex, FALSE, NULL);
    pth_cond_await(&told[0], &mutex, NULL);
    return argument;
}

static uint64_t memory(uint64_t *count)
{
    uint64_t started = 0;
    uint64_t before = own_memory();
    while (started < *count && started < MOST_PARKED &&
           pth_spawn(PTH_ATTR_DEFAULT, wait_for_ever, NULL) != NULL)
        started++;
    while (waiting < started)
        pth_yield(NULL);
    *count = started;
    return own_memory() - before;
}

static void *sleep_often(void *argument)
{
    for (uint64_t i = remaining; i > 0; i--)
        pth_usleep(1000);
    return argument;
}

/* Measures processor time, since elapsed time is mostly the sleep itself. */
static uint64_t sleep_(uint64_t *count)
{
    pth_t sleeping[SLEEPERS];
    remaining = (*count + SLEEPERS - 1) / SLEEPERS;
    *count = remaining * SLEEPERS;
    uint64_t start_time = processor_time();
    for (int i = 0; i < SLEEPERS; i++)
        sleeping[i] = start(sleep_often, NULL);
    for (int i = 0; i < SLEEPERS; i++)
        pth_join(sleeping[i], NULL);
    return processor_time() - start_time;
}

int main(int argc, char **argv)
{
    static const struct cost costs[] = {
        {"spawn", "ns", spawn},
        {"switch", "ns", switch_},
        {"alternate", "ns", switch_}, /* cheaper than a yield to any thread */
        {"yield-2", "ns", yield_2},
        {"yield-1000", "ns", yield_1000},
        {"lock", "ns", lock},
        {"contended", "ns", contended},
        {"condition", "ns", condition},
        {"sleep", "ns", sleep_},
        {"memory", "bytes", memory},
        {NULL, NULL, NULL},
    };
    must(pth_init(), "pth_init");
    return peer_main(argc, argv, costs);
}
