/* Tasks: their beginning, their turns on a loop, and their end. */
#include "runtime.h"

#include <limits.h>
#include <malloc.h>
#include <stdlib.h>

_Thread_local _Alignas(16) char rt_ret[64];
_Thread_local struct rt_handle *rt_next;
_Thread_local volatile int rt_turn;
_Thread_local struct task *self, *behalf;
_Thread_local struct loop *own_loop, *left;

struct loop loops[LOOPS];
static pthread_mutex_t loops_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned next_loop;

/* ---- The end of the process ----
 *
 * A process ends when its last thread has ended. Loops and side threads never end. So the runtime
 * counts the program's threads: `main`, tasks, and the pthreads that rt_spawn made. The runtime
 * does not count threads that a library made natively. The count matters only when `main` has
 * called pthread_exit. */

static unsigned live = 1;
static pthread_key_t end_key;
static pthread_once_t end_key_once = PTHREAD_ONCE_INIT;
static _Thread_local bool is_main;

__attribute__((constructor)) static void note_main(void) { is_main = true; }

void thread_ended(void) {
    if (__atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST)) return;
    for (unsigned index = 0; index < LOOPS; index++) {
        if (load(&loops[index].begun)) exit(0);
    }
}

/* Runs after the program's destructors, in their last round. */
static void pthread_ended(void *round) {
    if ((intptr_t)round == PTHREAD_DESTRUCTOR_ITERATIONS) thread_ended();
    else pthread_setspecific(end_key, (char *)round + 1);
}

static void make_end_key(void) {
    if (pthread_key_create(&end_key, pthread_ended)) give_up("the program has no key for thread-specific data left");
}

static void count_this_pthread(void) {
    pthread_once(&end_key_once, make_end_key);
    pthread_setspecific(end_key, (void *)1);
}

/* ---- Pthreads ---- */

struct beginning {
    void *(*start)(void *);
    void *argument;
};

static void *pthread_begins(void *argument) {
    struct beginning beginning = *(struct beginning *)argument;
    free(argument);
    count_this_pthread();
    return beginning.start(beginning.argument);
}

static int spawn_pthread(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument) {
    struct beginning *beginning = malloc(sizeof *beginning);
    if (!beginning) return EAGAIN;
    *beginning = (struct beginning){start, argument};
    __atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST);
    int error = pthread_create(thread, attributes, pthread_begins, beginning);
    if (error) {
        __atomic_sub_fetch(&live, 1, __ATOMIC_SEQ_CST);
        free(beginning);
    }
    return error;
}

_Noreturn void rt_block_pthread_exit(void *result) {
    if (behalf) behalf->result = result;
    else if (is_main) count_this_pthread();
    pthread_exit(result);
}

/* ---- Turns ---- */

void trampoline(struct rt_handle *handle) {
    while (handle) {
        rt_next = NULL;
        handle->resume(handle);
        handle = rt_next;
    }
}

/* Resumes the root: the start routine has returned. */
static void root_resumed(struct rt_handle *handle) {
    (void)handle;
    struct task *task = identity();
    /* After a pthread_exit, the result is the argument of pthread_exit. */
    if (!exceptions_leave_root()) memcpy(&task->result, rt_ret, sizeof task->result);
    task->flags |= RETURNED;
}

struct rt_handle root = {.resume = root_resumed};

/* The first turn. */
static void begin(struct rt_handle *handle) {
    (void)handle;
    struct task *task = self;
    /* From now on, the arguments belong to the task's system calls. */
    rt_start async = (rt_start)task->engine.arguments[0];
    struct rt_pointer begun = async((void *)task->engine.arguments[1]);
    if (begun.handle) {
        begun.handle->parent = &root;
        return;
    }
    task->result = begun.value;
    task->flags |= RETURNED;
}

struct rt_handle *leave(struct task *task, void *result) {
    task->result = result;
    task->flags |= EXITING;
    set_bits(&task->state, UNCANCELLABLE);
    return &task->waiter;
}

static void destroy_frames(struct task *task) {
    struct rt_handle *handle = task->waiter.parent;
    while (handle && handle != &root) {
        struct rt_handle *parent = handle->parent;
        handle->destroy(handle);
        handle = parent;
    }
    task->waiter.parent = NULL;
}

static void end(struct rt_handle *handle) {
    (void)handle;
    struct task *task = self;
    once_abandon(task);
    mask_ends(task);
    rare_free(task);
    unsigned before = set_bits(&task->state, ENDED);
    /* From here on, the thread that joins the task may free it. Its address is then only a key. */
    if (before & DETACHED) task_free(task);
    else if (before & JOINED) engine(ENGINE_WAKE, (unsigned long)&task->state, INT_MAX);
    self = NULL;
    thread_ended();
}

/* ---- After a burst ----
 *
 * All tasks of a loop share one heap. A burst touches it all over. glibc gives the memory back only
 * if it is asked. */

enum { BURST = 64 };
static unsigned most; /* threads since the last time */

static void note_most(unsigned now) {
    unsigned before = __atomic_load_n(&most, __ATOMIC_RELAXED);
    while (now > before && !__atomic_compare_exchange_n(&most, &before, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* Whether three quarters of the threads have ended: true once for a burst. */
static bool burst_is_over(void) {
    unsigned before = __atomic_load_n(&most, __ATOMIC_RELAXED), now = __atomic_load_n(&live, __ATOMIC_RELAXED);
    if (before < BURST || now > before / 4) return false;
    return __atomic_compare_exchange_n(&most, &before, now, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static void trim(void *task) { (void)task, malloc_trim(0); }

static void run_destructors(void *task) { specific_destroy(task); }

void enter_turn(struct task *task) {
    environment_enter(task);
    files_enter(task);
    processor_enter(task);
    exceptions_enter(task);
    errno = task->engine.saved_errno;
}

void leave_turn(struct task *task) {
    task->engine.saved_errno = errno;
    exceptions_leave(task);
    environment_leave(task);
    files_leave(task);
    processor_leave(task);
}

/* The last turn. Afterwards the task does not exist any more. */
static void end_after_destructors(struct rt_handle *handle) {
    leave_turn(self);
    end(handle);
}

/* The handlers of pthread_cleanup_push may block. They need the frames. */
static void clean_up(struct task *task) {
    on_loop();
    leave_turn(task);
    side_call(task, cleanups_run, task, NULL);
    side_begin(task);
    self = NULL;
}

/* The step after the task has suspended. */
static void settle(struct task *task) {
    if (task->flags & EXITING && cleanups_left(task)) {
        clean_up(task);
        return;
    }
    /* Destructors may wait, and go on at a later turn. */
    if (task->flags & EXITING) exceptions_unwind(task);
    on_loop();
    leave_turn(task);
    if (task->flags & EXITING) destroy_frames(task);
    if (task->flags & (EXITING | RETURNED)) {
        task->flags &= ~(EXITING | RETURNED);
        set_bits(&task->state, UNCANCELLABLE);
        /* Destructors may block. */
        if (specific_has_destructors(task)) side_call(task, run_destructors, task, end_after_destructors);
        else if (burst_is_over()) side_call(task, trim, task, end_after_destructors);
        else end(&task->waiter);
    }
    if (self && task->flags & HANDED) side_begin(task);
    self = NULL;
}

void task_run(struct task *task) {
    self = task;
    rt_turn = RT_TURN;
    mask_apply(task);
    enter_turn(task);
    /* A task that has ended on a side thread has no code left to run. */
    if (!(task->flags & (EXITING | RETURNED))) trampoline(&task->waiter);
    if (on_loop()) settle(task);
}

/* ---- Tasks that compute ----
 *
 * A task that does not give way takes its thread along. The thread leaves the loop, and another
 * thread runs the other tasks. Outside of the loop, the task is as on a side thread. Only a loop's
 * thread has a task wait, so each primitive first comes back. */

/* The pool of this thread while it is beside its loop. */
static _Thread_local struct pool *pool_beside;

/* The engine calls this function at a tick, outside of the runtime's code. Returns whether the
 * thread has left. A task that has already made its wait known suspends soon, and stays. */
static int leave_loop(void) {
    struct task *task = self;
    bool runs = task && ((const unsigned char *)&task->engine)[ENGINE_STATE] == RUNNING;
    if (!runs || task->flags & (EXITING | RETURNED | HANDED)) return false;
    behalf = task;
    self = NULL;
    left = own_loop;
    own_loop = NULL;
    own_pool = pool_beside;
    return true;
}

/* The task is on its loop from now on. */
static void be_on(struct loop *loop) {
    own_loop = loop;
    own_pool = loop->pool;
    left = NULL;
    self = behalf;
    behalf = NULL;
}

struct task *come_back(void) {
    pool_beside = own_pool;
    engine(ENGINE_RETURN);
    be_on(left);
    return self;
}

/* ---- Loops ---- */

/* ---- Stacks ----
 *
 * The stacks of loops and side threads are at least as large as the largest that the program has
 * asked for. If it asks for a larger one, each loop gets a new thread. The old ones stop. The
 * first part of a coroutine takes more of a stack than the original: twice is enough. */

static size_t largest_stack;
/* The stack of this thread of a loop. */
static _Thread_local size_t own_stack;

static size_t wanted_by(const pthread_attr_t *attributes) {
    pthread_attr_t usual;
    size_t size = 0;
    if (!attributes) pthread_attr_init(&usual);
    pthread_attr_getstacksize(attributes ? attributes : &usual, &size);
    if (!attributes) pthread_attr_destroy(&usual);
    return size;
}

size_t stack_size(void) {
    size_t size = load(&largest_stack);
    if (size) return size;
    size = 2 * wanted_by(NULL);
    if (size < SMALLEST_STACK) size = SMALLEST_STACK;
    store(&largest_stack, size);
    return size;
}

static void grow_stacks(const pthread_attr_t *attributes) {
    size_t wanted = 2 * wanted_by(attributes), size = stack_size();
    while (wanted > size && !__atomic_compare_exchange_n(&largest_stack, &size, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    }
}

static int loop_thread(struct loop *loop, pthread_t *thread);

/* The program's name of the thread, for the engine's reports. */
static const char *name_of(struct engine_task *engine) {
    struct rare *rare = load(&((struct task *)engine)->rare);
    return rare ? rare->name : "";
}

/* The bounds of the runtime's code, by the linker. */
extern const char __start_duality_runtime[], __stop_duality_runtime[];

static const struct engine_facts facts = {name_of, leave_loop, __start_duality_runtime, __stop_duality_runtime};

/* Tells the engine that the calling thread belongs to the loop. */
static void join_engine(struct loop *loop) {
    if (engine(ENGINE_LOOP, loop - loops, &rt_turn, &facts, &thread_mask)) give_up("the engine refuses a loop");
}

/* The stack of this thread is too small. So it gives the task to a thread with a larger stack, and
 * rests for ever: other threads may still name it. */
_Noreturn static void make_room(struct task *task) {
    struct loop *loop = own_loop;
    pthread_t larger;
    if (loop_thread(loop, &larger)) give_up("no thread with a larger stack: the limit of threads or of memory is reached (ulimit -u, -v)");
    store(&loop->thread, larger);
    mask_of_side(NULL);
    engine(ENGINE_READY, task, loop - loops, 0l);
    unsigned never = 0;
    for (;;) block_at(&never, 0, 0);
}

static void *loop_main(void *argument) {
    struct loop *loop = argument;
    own_loop = loop;
    own_pool = loop->pool;
    /* Other threads name the loop by its first thread, which never ends. */
    bool is_spare = load(&loop->begun);
    own_stack = stack_size();
    mask_of_loop(!is_spare);
    environment_of_loop();
    pthread_setname_np(pthread_self(), "duality-loop");
    join_engine(loop);
    store(&loop->begun, 1);
    wake_all(&loop->begun);
    for (;;) {
        long next = engine(ENGINE_NEXT, (long)is_spare);
        pthread_t spare;
        /* If no thread can be made, the loop goes on without a spare. 0 means that a signal came
         * and its handler has run. */
        if (next == ENGINE_MAKE_SPARE) loop_thread(loop, &spare);
        else if (next == ENGINE_END) break;
        else if (next && own_stack >= stack_size()) task_run((struct task *)next);
        else if (next) make_room((struct task *)next);
    }
    if (pool_beside) pool_leave(pool_beside);
    return NULL;
}

static int loop_thread(struct loop *loop, pthread_t *thread) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_size());
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(thread, &attributes, loop_main, loop);
    pthread_attr_destroy(&attributes);
    return error;
}

static int loop_create(struct loop *loop) {
    if (!loop->pool) loop->pool = pool_new();
    environment_of_process();
    int error = loop_thread(loop, &loop->thread);
    loop->exists = !error;
    return error;
}

static int loop_try(unsigned index) {
    struct loop *loop = &loops[index];
    if (load(&loop->begun)) return 0;
    pthread_mutex_lock(&loops_lock);
    int error = loop->exists ? 0 : loop_create(loop);
    pthread_mutex_unlock(&loops_lock);
    while (!error && !load(&loop->begun)) block_at(&loop->begun, 0, 0);
    return error;
}

void loop_ensure(unsigned index) {
    if (loop_try(index)) give_up("no thread for a loop: the limit of threads is reached (ulimit -u)");
}

/* ---- Spawning ---- */

int rt_spawn(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument, rt_start async,
             const struct rt_program *program) {
    if (program && program->version != RT_VERSION) give_up("the pass and the runtime are of different versions");
    if (!async) return spawn_pthread(thread, attributes, start, argument);
    if (attributes) grow_stacks(attributes);
    unsigned index = __atomic_fetch_add(&next_loop, 1, __ATOMIC_RELAXED) % core_count;
    int error = loop_try(index);
    if (error) return error;
    struct task *task = task_allocate();
    if (!task) return EAGAIN;
    int detached = PTHREAD_CREATE_JOINABLE;
    if (attributes) pthread_attr_getdetachstate(attributes, &detached);
    task->loop = index;
    task->state = detached == PTHREAD_CREATE_DETACHED ? DETACHED : 0;
    task->waiter.resume = begin;
    task->engine.arguments[0] = (long)async;
    task->engine.arguments[1] = (long)argument;
    mask_inherit(task);
    environment_inherit(task, program);
    exceptions_inherit(program);
    processor_inherit(task, program);
    mask_begins(task);
    note_most(__atomic_add_fetch(&live, 1, __ATOMIC_SEQ_CST));
    *thread = (pthread_t)task;
    engine(ENGINE_READY, task, index, 0l);
    return 0;
}

/* ---- fork ---- */

void tasks_before_fork(void) { pthread_mutex_lock(&loops_lock); }

void tasks_after_fork(bool child) {
    pthread_mutex_unlock(&loops_lock);
    if (!child) return;
    live = 1;
    for (unsigned index = 0; index < LOOPS; index++) {
        struct loop *loop = &loops[index];
        if (loop == own_loop) continue;
        /* The loop's thread may have been using the loop's pool. */
        if (loop == left) *loop = (struct loop){pthread_self(), 1, true, pool_new(), loop->base};
        else *loop = (struct loop){0};
    }
    if (left) be_on(left);
    if (own_loop) join_engine(own_loop);
}
