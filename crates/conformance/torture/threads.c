/* Tests threads, their locks, their storage and their ends. */
#include "test.h"
#include <fenv.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <threads.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long counter;

enum { THREADS = 40, ROUNDS = 500 };

static void *identity(void *argument) { return argument; }

static void *add(void *argument) {
    pthread_mutex_t *lock = argument;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_mutex_lock(lock);
        long seen = counter;
        if (round % 50 == 0) sched_yield();
        counter = seen + 1;
        pthread_mutex_unlock(lock);
    }
    return NULL;
}

static int exclusive(pthread_mutex_t *lock) {
    pthread_t threads[THREADS];
    counter = 0;
    for (int index = 0; index < THREADS; index++) threads[index] = start(add, lock);
    for (int index = 0; index < THREADS; index++) join(threads[index]);
    CHECK(counter == THREADS * ROUNDS);
    return 0;
}

static int exclusive_of(int type, int protocol, int robust) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t lock;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, type);
    CHECK(!pthread_mutexattr_setprotocol(&attributes, protocol));
    CHECK(!pthread_mutexattr_setrobust(&attributes, robust));
    CHECK(!pthread_mutex_init(&lock, &attributes));
    return exclusive(&lock);
}

TEST(mutex_normal) { return exclusive(&mutex); }
TEST(mutex_recursive) { return exclusive_of(PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED); }
TEST(mutex_errorcheck) { return exclusive_of(PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED); }
TEST(mutex_adaptive) { return exclusive_of(PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED); }
TEST(mutex_inherit) { return exclusive_of(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_STALLED); }
TEST(mutex_robust) { return exclusive_of(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST); }
TEST(mutex_robust_inherit) { return exclusive_of(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_ROBUST); }

TEST(mutex_errors) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t lock;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&lock, &attributes);
    CHECK(pthread_mutex_unlock(&lock) == EPERM);
    CHECK(!pthread_mutex_lock(&lock));
    CHECK(pthread_mutex_lock(&lock) == EDEADLK);
    CHECK(pthread_mutex_trylock(&lock) == EBUSY);
    CHECK(!pthread_mutex_unlock(&lock));
    return 0;
}

static void *lock_and_end(void *lock) {
    pthread_mutex_lock(lock);
    return NULL;
}

static int owner_dies(int protocol) {
    pthread_mutexattr_t attributes;
    pthread_mutex_t lock;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, protocol);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    CHECK(!pthread_mutex_init(&lock, &attributes));
    join(start(lock_and_end, &lock));
    CHECK(pthread_mutex_lock(&lock) == EOWNERDEAD);
    CHECK(!pthread_mutex_consistent(&lock));
    CHECK(!pthread_mutex_unlock(&lock));
    CHECK(!pthread_mutex_lock(&lock));
    return 0;
}
TEST(owner_dies) { return owner_dies(PTHREAD_PRIO_NONE); }
TEST(owner_dies_inherit) { return owner_dies(PTHREAD_PRIO_INHERIT); }

static void *lock_late(void *lock) { return (void *)(long)pthread_mutex_lock(lock); }
static void *hold_and_end(void *lock) {
    pthread_mutex_lock(lock);
    sleep_ms(60);
    return NULL;
}
TEST(owner_dies_with_waiters) {
    pthread_mutexattr_t attributes;
    static pthread_mutex_t lock;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&lock, &attributes);
    pthread_t holder = start(hold_and_end, &lock);
    sleep_ms(20);
    pthread_t waiter = start(lock_late, &lock);
    join(holder);
    CHECK(join(waiter) == EOWNERDEAD);
    return 0;
}

TEST(timed_waits_time_out) {
    struct timespec past = from_now(CLOCK_REALTIME, -1000);
    struct timespec soon = from_now(CLOCK_REALTIME, 30);
    long begin = now_ms();
    pthread_mutex_lock(&mutex);
    CHECK(pthread_cond_timedwait(&condition, &mutex, &past) == ETIMEDOUT);
    CHECK(pthread_cond_timedwait(&condition, &mutex, &soon) == ETIMEDOUT);
    CHECK(now_ms() - begin >= 28);
    soon = from_now(CLOCK_MONOTONIC, 30);
    CHECK(pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, &soon) == ETIMEDOUT);
    pthread_mutex_unlock(&mutex);
    sem_t semaphore;
    sem_init(&semaphore, 0, 0);
    soon = from_now(CLOCK_REALTIME, 20);
    CHECK(sem_timedwait(&semaphore, &soon) == -1 && errno == ETIMEDOUT);
    CHECK(sem_trywait(&semaphore) == -1 && errno == EAGAIN);
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_rwlock_wrlock(&lock);
    soon = from_now(CLOCK_REALTIME, 20);
    int error = pthread_rwlock_timedrdlock(&lock, &soon);
    CHECK(error == ETIMEDOUT || error == EDEADLK);
    return 0;
}

static void *sleeper(void *argument) {
    sleep_ms((long)argument);
    return argument;
}
static sem_t may_end;
static void *waits_to_end(void *argument) {
    while (sem_wait(&may_end)) {
    }
    return argument;
}
TEST(timed_join) {
    sem_init(&may_end, 0, 0);
    pthread_t thread = start(waits_to_end, (void *)80);
    struct timespec soon = from_now(CLOCK_REALTIME, 10);
    void *result;
    CHECK(pthread_timedjoin_np(thread, &result, &soon) == ETIMEDOUT);
    CHECK(pthread_tryjoin_np(thread, &result) == EBUSY);
    sem_post(&may_end);
    CHECK(!pthread_join(thread, &result));
    CHECK(result == (void *)80);
    return 0;
}

static pthread_barrier_t barrier;
static void *meet(void *argument) {
    long serial = 0;
    (void)argument;
    for (int round = 0; round < 100; round++) {
        serial += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
    }
    return (void *)serial;
}
TEST(barrier) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int index = 0; index < THREADS; index++) threads[index] = start(meet, NULL);
    long serial = 0;
    for (int index = 0; index < THREADS; index++) serial += join(threads[index]);
    CHECK(serial == 100);
    return 0;
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static volatile long value, torn;
static void *read_or_write(void *argument) {
    for (int round = 0; round < ROUNDS; round++) {
        if ((round + (long)argument) % 10) {
            pthread_rwlock_rdlock(&rwlock);
            long seen = value;
            sched_yield();
            torn += seen != value;
        } else {
            pthread_rwlock_wrlock(&rwlock);
            long seen = value;
            sched_yield();
            value = seen + 1;
        }
        pthread_rwlock_unlock(&rwlock);
    }
    return NULL;
}
TEST(rwlock) {
    pthread_t threads[20];
    for (long index = 0; index < 20; index++) threads[index] = start(read_or_write, (void *)index);
    for (int index = 0; index < 20; index++) join(threads[index]);
    CHECK(!torn && value == 20 * ROUNDS / 10);
    return 0;
}

static int begun;
static void begin_once(void) {
    sleep_ms(20);
    begun++;
}
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *call_once_(void *argument) {
    (void)argument;
    pthread_once(&once, begin_once);
    return (void *)(long)begun;
}
TEST(once) {
    pthread_t threads[10];
    for (int index = 0; index < 10; index++) threads[index] = start(call_once_, NULL);
    for (int index = 0; index < 10; index++) CHECK(join(threads[index]) == 1);
    return 0;
}

static pthread_key_t key;
static int destroyed;
static void destroy(void *argument) {
    (void)argument;
    __sync_fetch_and_add(&destroyed, 1);
}
static void *keep(void *argument) {
    pthread_setspecific(key, argument);
    for (int round = 0; round < 10; round++) {
        sched_yield();
        if (pthread_getspecific(key) != argument) return NULL;
    }
    return argument;
}
TEST(specific_data) {
    pthread_t threads[THREADS];
    pthread_key_create(&key, destroy);
    for (long index = 0; index < THREADS; index++) threads[index] = start(keep, (void *)(index + 1));
    for (long index = 0; index < THREADS; index++) CHECK(join(threads[index]) == index + 1);
    CHECK(destroyed == THREADS);
    return 0;
}

static __thread long local = 42;
static __thread char large[4000];
static void *change_local(void *argument) {
    if (local != 42 || large[2000]) return NULL;
    local = (long)argument;
    large[2000] = 1;
    sleep_ms(5);
    return (void *)local;
}
TEST(thread_local_storage) {
    pthread_t threads[THREADS];
    for (long index = 0; index < THREADS; index++) threads[index] = start(change_local, (void *)(index + 1));
    for (long index = 0; index < THREADS; index++) CHECK(join(threads[index]) == index + 1);
    CHECK(local == 42);
    return 0;
}

static void *own_errno(void *argument) {
    for (int round = 0; round < 50; round++) {
        errno = (int)(long)argument;
        sched_yield();
        if (errno != (int)(long)argument) return (void *)1;
    }
    return NULL;
}
TEST(errno_is_local) {
    pthread_t threads[10];
    for (long index = 0; index < 10; index++) threads[index] = start(own_errno, (void *)(1000 + index));
    for (int index = 0; index < 10; index++) CHECK(join(threads[index]) == 0);
    return 0;
}

static void *own_rounding(void *argument) {
    fesetround((int)(long)argument);
    for (int round = 0; round < 50; round++) sched_yield();
    return (void *)(long)(fegetround() == (int)(long)argument);
}
TEST(rounding_is_local) {
    pthread_t up = start(own_rounding, (void *)FE_UPWARD), down = start(own_rounding, (void *)FE_DOWNWARD);
    CHECK(join(up) && join(down) && fegetround() == FE_TONEAREST);
    return 0;
}

static volatile bool enough;
static volatile double sums[4];
static void *compute(void *argument) {
    long index = (long)argument;
    double sum = 0;
    for (long step = 1; !enough; step++) sum += 1.0 / (double)(step * step % 1000 + index + 1);
    sums[index] = sum;
    return NULL;
}
TEST(vector_registers_survive_preemption) {
    /* Each thread adds in registers while other threads interrupt it. An equal second sum shows
     * that no register is lost. */
    double expected = 0, again = 0;
    for (long step = 1; step < 20000000; step++) expected += 1.0 / (double)(step % 1000 + 1);
    pthread_t threads[3];
    for (long index = 0; index < 3; index++) threads[index] = start(compute, (void *)index);
    for (long step = 1; step < 20000000; step++) again += 1.0 / (double)(step % 1000 + 1);
    enough = true;
    for (int index = 0; index < 3; index++) join(threads[index]);
    CHECK(expected == again);
    return 0;
}

TEST(preempt_spinner) {
    pthread_t thread = start(compute, (void *)0);
    for (int round = 0; round < 5; round++) sleep_ms(5);
    enough = true;
    join(thread);
    return 0;
}

static void *spin_until_set(void *argument) {
    while (!*(volatile bool *)argument) {
    }
    return NULL;
}
TEST(preempt_spin_wait) {
    static volatile bool set;
    pthread_t threads[4];
    for (int index = 0; index < 4; index++) threads[index] = start(spin_until_set, (void *)&set);
    set = true;
    for (int index = 0; index < 4; index++) join(threads[index]);
    return 0;
}

static void *cancel_me(void *argument) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    return spin_until_set(argument);
}
/* Threads that wake run before a thread that computes, but not for ever. */
static int there[2], back[2];
static volatile bool counted;
static void *count_far(void *argument) {
    for (volatile long count = 0; count < 50000000; count++) {
    }
    counted = true;
    return argument;
}
static void *send_back(void *argument) {
    for (char byte; read(there[0], &byte, 1) == 1 && write(back[1], &byte, 1) == 1;) {
    }
    return argument;
}
TEST(preempt_waking_threads_let_others_compute) {
    CHECK(!pipe(there) && !pipe(back));
    start(send_back, NULL);
    pthread_t counter = start(count_far, NULL);
    for (char byte = 0; !counted;) CHECK(write(there[1], &byte, 1) == 1 && read(back[0], &byte, 1) == 1);
    join(counter);
    return 0;
}

TEST(preempt_async_cancel) {
    static bool never;
    pthread_t thread = start(cancel_me, &never);
    sleep_ms(10);
    pthread_cancel(thread);
    CHECK((void *)join(thread) == PTHREAD_CANCELED);
    return 0;
}

static void *cancel_point(void *argument) {
    (void)argument;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    sleep_ms(60);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    for (;;) pthread_testcancel();
    return NULL;
}
TEST(preempt_deferred_cancel) {
    pthread_t thread = start(cancel_point, NULL);
    sleep_ms(10);
    pthread_cancel(thread);
    CHECK((void *)join(thread) == PTHREAD_CANCELED);
    return 0;
}

static volatile int ended;
static void *end_soon(void *argument) {
    (void)argument;
    sleep_ms(2);
    __sync_fetch_and_add(&ended, 1);
    return NULL;
}
static int end_detached(int count) {
    ended = 0;
    for (int index = 0; index < count; index++) {
        pthread_t thread = start(end_soon, NULL);
        CHECK(!pthread_detach(thread));
    }
    while (ended < count) sleep_ms(5);
    return 0;
}
TEST(detached) { return end_detached(300); }

// A new deadline comes while a worker waits for a later deadline. That worker must learn of the new
// deadline, even if another worker polls meanwhile.
TEST(workers_earlier_deadlines_are_heard_of) {
    for (int round = 0; round < 25; round++)
        if (end_detached(300)) return 1;
    return 0;
}

TEST(many_generations) {
    for (int round = 0; round < 20000; round++) CHECK(join(start(identity, (void *)(long)round)) == round);
    return 0;
}

TEST(two_thousand_at_once) {
    static pthread_t threads[2000];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    for (long index = 0; index < 2000; index++) CHECK(!pthread_create(&threads[index], &attributes, sleeper, (void *)100));
    for (int index = 0; index < 2000; index++) CHECK(join(threads[index]) == 100);
    return 0;
}

/* libc maps a stack so. To unmap memory twice is no error, and gives back nothing more. */
TEST(a_stack_given_back_twice_serves_one_thread) {
    const int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK;
    const size_t size = 320 << 10;
    void *first = mmap(NULL, size, PROT_NONE, kind, -1, 0);
    CHECK(first != MAP_FAILED && !munmap(first, size) && !munmap(first, size));
    void *one = mmap(NULL, size, PROT_NONE, kind, -1, 0);
    void *other = mmap(NULL, size, PROT_NONE, kind, -1, 0);
    CHECK(one != MAP_FAILED && other != MAP_FAILED && one != other);
    CHECK(!munmap(one, size) && !munmap(other, size));
    return 0;
}

static void *measure_stack(void *argument) {
    pthread_attr_t attributes;
    void *base;
    size_t size, guard;
    char here;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &base, &size);
    pthread_attr_getguardsize(&attributes, &guard);
    bool inside = &here > (char *)base && &here < (char *)base + size;
    return (void *)(inside && size == (size_t)argument ? guard : 1);
}
TEST(stack_attributes) {
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    for (size_t size = 32768; size <= 1 << 22; size *= 4) {
        for (size_t guard = 0; guard <= 16384; guard += 8192) {
            pthread_attr_setstacksize(&attributes, size);
            pthread_attr_setguardsize(&attributes, guard);
            CHECK(!pthread_create(&thread, &attributes, measure_stack, (void *)size));
            CHECK((size_t)join(thread) == guard);
        }
    }
    return 0;
}

static void *use_zeroed(void *argument) {
    char room[40000];
    (void)argument;
    memset(room, 0x55, sizeof room);
    sched_yield();
    return (void *)(long)(room[100] == 0x55);
}
TEST(own_stack) {
    pthread_attr_t attributes;
    pthread_t thread;
    void *stack = mmap(NULL, 1 << 17, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_init(&attributes);
    CHECK(!pthread_attr_setstack(&attributes, stack, 1 << 17));
    CHECK(!pthread_create(&thread, &attributes, use_zeroed, NULL));
    CHECK(join(thread) == 1);
    CHECK(!munmap(stack, 1 << 17));
    return 0;
}

static int dig(int depth) {
    volatile char room[4096];
    room[0] = (char)depth;
    return depth > 0 ? dig(depth - 1) + room[0] : 0;
}
static void *overflow(void *argument) {
    (void)argument;
    return (void *)(long)dig(1 << 20);
}
TEST(stack_overflow_is_a_fault) {
    pid_t child = fork();
    if (!child) {
        struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        close(2);
        join(start(overflow, NULL));
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    return 0;
}

static int c11_body(void *argument) {
    mtx_lock(argument);
    counter++;
    mtx_unlock(argument);
    thrd_yield();
    return 7;
}
TEST(c11_threads) {
    mtx_t lock;
    thrd_t threads[10];
    int result;
    counter = 0;
    mtx_init(&lock, mtx_plain);
    for (int index = 0; index < 10; index++) CHECK(thrd_create(&threads[index], c11_body, &lock) == thrd_success);
    for (int index = 0; index < 10; index++) {
        thrd_join(threads[index], &result);
        CHECK(result == 7);
    }
    CHECK(counter == 10);
    return 0;
}

static void *named(void *argument) {
    char name[16];
    prctl(PR_SET_NAME, "inner");
    sleep_ms(40);
    pthread_getname_np(pthread_self(), name, sizeof name);
    (void)argument;
    return (void *)(long)!strcmp(name, "outer");
}
TEST(names) {
    char name[16];
    pthread_t thread = start(named, NULL);
    sleep_ms(15);
    CHECK(!pthread_getname_np(thread, name, sizeof name) && !strcmp(name, "inner"));
    CHECK(!pthread_setname_np(thread, "outer"));
    CHECK(join(thread) == 1);
    CHECK(!pthread_setname_np(pthread_self(), "main"));
    CHECK(!pthread_getname_np(pthread_self(), name, sizeof name) && !strcmp(name, "main"));
    return 0;
}

static void *tell_id(void *argument) {
    *(pid_t *)argument = gettid();
    return NULL;
}
TEST(ids) {
    pid_t ids[2];
    CHECK(gettid() == getpid());
    pthread_t first = start(tell_id, &ids[0]), second = start(tell_id, &ids[1]);
    join(first);
    join(second);
    CHECK(ids[0] != ids[1] && ids[0] != getpid());
    CHECK(syscall(SYS_tgkill, getpid(), 0x3fffffff, 0) == -1 && errno == ESRCH);
    return 0;
}

static void *pinned(void *argument) {
    cpu_set_t set, seen;
    (void)argument;
    if (sched_getaffinity(0, sizeof seen, &seen)) return (void *)1;
    int cpu = 0;
    while (!CPU_ISSET(cpu, &seen)) cpu++;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set)) return (void *)2;
    if (pthread_getaffinity_np(pthread_self(), sizeof seen, &seen)) return (void *)3;
    CPU_ZERO(&set);
    CPU_SET(1023, &set);
    if (pthread_setaffinity_np(pthread_self(), sizeof set, &set) != EINVAL) return (void *)5;
    return (void *)(long)(CPU_COUNT(&seen) == 1 ? 0 : 4);
}
TEST(affinity) {
    CHECK(join(start(pinned, NULL)) == 0);
    return 0;
}

static pthread_t main_thread;
static void *outlive(void *argument) {
    (void)argument;
    pthread_join(main_thread, NULL);
    exit(0);
}
TEST(main_may_end_first) {
    main_thread = pthread_self();
    start(outlive, NULL);
    pthread_exit(NULL);
}

static void *exit_seven(void *argument) {
    (void)argument;
    exit(7);
}
TEST(any_thread_may_exit) {
    pid_t child = fork();
    if (!child) {
        start(exit_seven, NULL);
        for (;;) pause();
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    return 0;
}

static sem_t ping, pong;
static void *ponger(void *argument) {
    (void)argument;
    for (int round = 0; round < 20000; round++) {
        sem_wait(&ping);
        sem_post(&pong);
    }
    return NULL;
}
TEST(ping_pong) {
    sem_init(&ping, 0, 0);
    sem_init(&pong, 0, 0);
    pthread_t thread = start(ponger, NULL);
    for (int round = 0; round < 20000; round++) {
        sem_post(&ping);
        sem_wait(&pong);
    }
    join(thread);
    return 0;
}

static void *wait_for_signal_of_all(void *argument) {
    (void)argument;
    pthread_mutex_lock(&mutex);
    counter++;
    pthread_cond_wait(&condition, &mutex);
    counter--;
    pthread_mutex_unlock(&mutex);
    return NULL;
}
TEST(broadcast) {
    pthread_t threads[THREADS];
    counter = 0;
    for (int index = 0; index < THREADS; index++) threads[index] = start(wait_for_signal_of_all, NULL);
    for (;;) {
        pthread_mutex_lock(&mutex);
        bool all = counter == THREADS;
        if (all) pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&mutex);
        if (all) break;
        sleep_ms(2);
    }
    for (int index = 0; index < THREADS; index++) join(threads[index]);
    CHECK(counter == 0);
    return 0;
}

static void *allocate(void *argument) {
    char *blocks[100];
    for (int round = 0; round < 30; round++) {
        for (int index = 0; index < 100; index++) {
            blocks[index] = malloc(10 + index * 137);
            memset(blocks[index], (int)(long)argument, 10 + index * 137);
        }
        sched_yield();
        for (int index = 0; index < 100; index++) {
            if (blocks[index][5] != (char)(long)argument) return (void *)1;
            free(blocks[index]);
        }
    }
    return NULL;
}
TEST(malloc_in_threads) {
    pthread_t threads[20];
    for (long index = 0; index < 20; index++) threads[index] = start(allocate, (void *)(index + 1));
    for (int index = 0; index < 20; index++) CHECK(join(threads[index]) == 0);
    return 0;
}
