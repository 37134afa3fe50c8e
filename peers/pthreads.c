/* Kernel threads by glibc's pthreads, for comparison with our block world.
 *
 * Two threads wake each other by semaphores, the cheapest way that POSIX offers.
 */
#include "peer.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <unistd.h>

/* Our block world parks as many threads. */
#define MOST_PARKED 4000

static uint64_t remaining;

static pthread_t start(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    must(pthread_create(&thread, NULL, body, argument) == 0, "pthread_create");
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
        pthread_join(start(nothing, NULL), NULL);
    return now() - start_time;
}

static sem_t turns[2];

static void *wake(void *argument)
{
    int me = argument != NULL;
    for (uint64_t i = remaining; i > 0; i--) {
        sem_wait(&turns[me]);
        sem_post(&turns[!me]);
    }
    return NULL;
}

static uint64_t switch_(uint64_t *count)
{
    remaining = *count;
    sem_init(&turns[0], 0, 1);
    sem_init(&turns[1], 0, 0);
    uint64_t start_time = now();
    pthread_t other = start(wake, turns);
    wake(NULL);
    pthread_join(other, NULL);
    return now() - start_time;
}

static void *yield_often(void *argument)
{
    for (uint64_t i = remaining; i > 0; i--)
        sched_yield();
    return argument;
}

static pthread_barrier_t gate;

static void *yield_after_gate(void *argument)
{
    pthread_barrier_wait(&gate);
    return yield_often(argument);
}

/* The threads start together. Otherwise the first threads would end before the last ones start. */
static uint64_t yields(uint64_t *count, uint64_t threads)
{
    pthread_t *running = calloc(threads, sizeof *running);
    remaining = (*count + threads - 1) / threads;
    *count = remaining * threads;
    pthread_barrier_init(&gate, NULL, (unsigned)threads + 1);
    for (uint64_t i = 0; i < threads; i++)
        running[i] = start(yield_after_gate, NULL);
    uint64_t start_time = now();
    pthread_barrier_wait(&gate);
    for (uint64_t i = 0; i < threads; i++)
        pthread_join(running[i], NULL);
    return now() - start_time;
}

static uint64_t yield_2(uint64_t *count)
{
    return yields(count, 2);
}

/* Yields are cheaper than semaphores. */
static uint64_t alternate(uint64_t *count)
{
    uint64_t twice = 2 * *count;
    return yields(&twice, 2);
}

static uint64_t yield_1000(uint64_t *count)
{
    return yields(count, 1000);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for_ever(void *argument)
{
    pause();
    return argument;
}

/* Keeps a second thread: in a process with one thread, glibc leaves out the atomic operations. */
static uint64_t lock(uint64_t *count)
{
    start(wait_for_ever, NULL);
    uint64_t start_time = now();
    for (uint64_t i = 0; i < *count; i++) {
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
    }
    return now() - start_time;
}

static void *lock_often(void *argument)
{
    for (uint64_t i = remaining; i > 0; i--) {
        pthread_mutex_lock(&mutex);
        sched_yield();
        pthread_mutex_unlock(&mutex);
        sched_yield();
    }
    return argument;
}

static uint64_t contended(uint64_t *count)
{
    remaining = (*count + 1) / 2;
    *count = remaining * 2;
    uint64_t start_time = now();
    pthread_t other = start(lock_often, NULL);
    lock_often(NULL);
    pthread_join(other, NULL);
    return now() - start_time;
}

static pthread_cond_t told[2] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static int turn;

static void *play(void *argument)
{
    int me = argument != NULL;
    for (uint64_t i = remaining; i > 0; i--) {
        pthread_mutex_lock(&mutex);
        while (turn != me)
            pthread_cond_wait(&told[me], &mutex);
        turn = !me;
        pthread_cond_signal(&told[!me]);
        pthread_mutex_unlock(&mutex);
    }
    return NULL;
}

static uint64_t condition(uint64_t *count)
{
    remaining = *count;
    uint64_t start_time = now();
    pthread_t other = start(play, told);
    play(NULL);
    pthread_join(other, NULL);
    return now() - start_time;
}

static atomic_uint_fast64_t waiting;

static void *wait_and_tell(void *argument)
{
    waiting++;
    return wait_for_ever(argument);
}

static uint64_t memory(uint64_t *count)
{
    uint64_t started = 0;
    pthread_t thread;
    uint64_t before = own_memory();
    while (started < *count && started < MOST_PARKED &&
           pthread_create(&thread, NULL, wait_and_tell, NULL) == 0)
        started++;
    while (waiting < started)
        sched_yield();
    *count = started;
    return own_memory() - before;
}

static void *sleep_often(void *argument)
{
    for (uint64_t i = remaining; i > 0; i--)
        usleep(1000);
    return argument;
}

/* Measures processor time, since elapsed time is mostly the sleep itself. */
static uint64_t sleep_(uint64_t *count)
{
    pthread_t sleeping[SLEEPERS];
    remaining = (*count + SLEEPERS - 1) / SLEEPERS;
    *count = remaining * SLEEPERS;
    uint64_t start_time = processor_time();
    for (int i = 0; i < SLEEPERS; i++)
        sleeping[i] = start(sleep_often, NULL);
    for (int i = 0; i < SLEEPERS; i++)
        pthread_join(sleeping[i], NULL);
    return processor_time() - start_time;
}

int main(int argc, char **argv)
{
    static const struct cost costs[] = {
        {"spawn", "ns", spawn},
        {"switch", "ns", switch_},
        {"alternate", "ns", alternate},
        {"yield-2", "ns", yield_2},
        {"yield-1000", "ns", yield_1000},
        {"lock", "ns", lock},
        {"contended", "ns", contended},
        {"condition", "ns", condition},
        {"sleep", "ns", sleep_},
        {"memory", "bytes", memory},
        {NULL, NULL, NULL},
    };
    return peer_main(argc, argv, costs);
}
