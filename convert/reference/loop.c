/* The reference runtime: tasks, fibers, frames, and the loop that runs them. */
#include "reference.h"

#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#if __has_feature(address_sanitizer)
void __sanitizer_start_switch_fiber(void **fake, const void *bottom, size_t size);
void __sanitizer_finish_switch_fiber(void *fake, const void **bottom, size_t *size);
#else
#define __sanitizer_start_switch_fiber(...)
#define __sanitizer_finish_switch_fiber(...)
#endif

_Thread_local _Alignas(16) char rt_ret[64];
_Thread_local struct rt_handle *rt_next;
/* The variable is always 0, so that each check of it ends a turn. */
_Thread_local volatile int rt_turn;

struct task main_task = {.fiber = true, .state = RUNNING, .identity = 1};
struct task *self = &main_task;

static struct task *first_ready, **last_ready = &first_ready;
static struct task *reaped; /* a fiber that has ended and is still on its own stack */
static ucontext_t loop_context;
static char *loop_stack;
static int last_identity = 1;

void give_up(const char *message) {
    fprintf(stderr, "reference runtime: %s\n", message);
    abort();
}

uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* When all tasks have ended, all frames are free. */
static long live_tasks, live_frames;
__attribute__((destructor)) static void count_frames(void) {
    if (live_tasks == 0 && live_frames != 0) give_up("frames were not freed, or twice");
}

/* Frames come from malloc, so that AddressSanitizer and valgrind see a use of a freed frame. */
void *rt_frame_allocate(size_t size, size_t alignment) {
    void *memory = alignment <= 16 ? malloc(size) : aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (!memory) give_up("out of memory for a frame");
    live_frames++;
    return memory;
}

void rt_frame_free(void *frame, size_t size, size_t alignment) {
    (void)size, (void)alignment;
    live_frames--;
    free(frame);
}

struct array {
    struct array *next;
    void *memory;
};

void *rt_array_allocate(void **list, size_t size, size_t alignment) {
    size_t offset = alignment > sizeof(struct array) ? alignment : sizeof(struct array);
    struct array *array = alignment <= 16 ? malloc(offset + size) : aligned_alloc(alignment, (offset + size + alignment - 1) / alignment * alignment);
    if (!array) give_up("out of memory for an array");
    array->next = *list;
    *list = array;
    return (char *)array + offset;
}

void rt_array_release(void **list, void *mark) {
    while (*list != mark) {
        struct array *array = *list;
        *list = array->next;
        free(array);
    }
}

struct task *identity(void) {
    return self->behalf ? self->behalf : self;
}

void ready(struct task *task) {
    task->state = READY;
    task->next = NULL;
    *last_ready = task;
    last_ready = &task->next;
}

void task_free(struct task *task) {
    if (task == &main_task) return;
    free(task->specific);
    free(task->locals);
    free(task);
}

/* A task or a fiber has ended: its joiner goes on. */
static void end(struct task *task) {
    run_destructors(task);
    task->state = ENDED;
    if (task->async) live_tasks--;
    if (task->detached) task_free(task);
    else wake(task, 1);
}

static void destroy_frames(struct rt_handle *handle, struct task *task) {
    while (handle && handle != &task->root) {
        struct rt_handle *parent = handle->parent;
        handle->destroy(handle);
        handle = parent;
    }
}

static void root_resumed(struct rt_handle *handle) {
    struct task *task = (struct task *)((char *)handle - offsetof(struct task, root));
    memcpy(&task->result, rt_ret, sizeof task->result);
    task->done = true;
}

static void trampoline(struct rt_handle *handle) {
    while (handle) {
        rt_next = NULL;
        handle->resume(handle);
        handle = rt_next;
    }
}

/* A turn of a task: on the loop's stack, until it waits or ends. */
static void run_task(struct task *task) {
    if (!task->begun && !task->exiting) {
        task->begun = true;
        task->root.resume = root_resumed;
        struct rt_pointer begun = task->async(task->argument);
        if (begun.handle) begun.handle->parent = &task->root;
        else task->result = begun.value, task->done = true;
    } else if (!task->exiting) {
        memcpy(rt_ret, &task->operation.value, sizeof task->operation.value);
        trampoline(task->waiter.parent);
    }
    if (task->exiting) {
        /* Handlers must not wait: they run on the loop's stack. */
        while (task->cleanups) {
            struct rt_cleanup *cleanup = task->cleanups;
            task->cleanups = cleanup->next;
            cleanup->routine(cleanup);
        }
        if (task->begun) destroy_frames(task->waiter.parent, task);
        task->done = true;
    }
    task->saved_errno = errno;
    if (task->done) end(task);
}

static void switch_to(ucontext_t *from, ucontext_t *to, const void *bottom, size_t size) {
    (void)bottom, (void)size;
    void *fake = NULL;
    (void)fake;
    __sanitizer_start_switch_fiber(&fake, bottom, size);
    swapcontext(from, to);
    __sanitizer_finish_switch_fiber(fake, NULL, NULL);
}

static void reap(struct task *fiber) {
    munmap(fiber->stack, STACK);
    struct task *behalf = fiber->behalf;
    if (!behalf) {
        end(fiber);
        return;
    }
    behalf->side = NULL;
    behalf->saved_errno = fiber->saved_errno;
    if (fiber->exiting) {
        behalf->exiting = true;
        behalf->result = fiber->result;
    }
    ready(behalf);
    free(fiber);
}

static void loop(void) {
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
    for (;;) {
        struct task *task;
        while ((task = first_ready)) {
            first_ready = task->next;
            if (!first_ready) last_ready = &first_ready;
            task->state = RUNNING;
            self = task;
            errno = task->saved_errno;
            if (task->fiber) {
                switch_to(&loop_context, &task->context, task->stack, STACK);
                if (reaped) {
                    struct task *ended = reaped;
                    reaped = NULL;
                    reap(ended);
                }
            } else {
                run_task(task);
            }
            self = NULL;
        }
        wait_for_events();
    }
}

static void begin_loop(void) {
    if (loop_stack) return;
    loop_stack = mmap(NULL, 8 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (loop_stack == MAP_FAILED) give_up("no memory for the loop's stack");
    getcontext(&loop_context);
    loop_context.uc_stack.ss_sp = loop_stack;
    loop_context.uc_stack.ss_size = 8 * STACK;
    makecontext(&loop_context, loop, 0);
}

/* The child has only the calling task. */
pid_t rt_fork(void) {
    pid_t child = fork();
    if (child) return child;
    first_ready = NULL;
    last_ready = &first_ready;
    forget_all();
    return 0;
}

void park(void) {
    if (!self->fiber) give_up("a function that was not converted blocks on the loop's stack");
    struct task *fiber = self;
    begin_loop();
    fiber->saved_errno = errno;
    switch_to(&fiber->context, &loop_context, loop_stack, 8 * STACK);
    if (fiber->exiting) fiber_exit();
}

void fiber_exit(void) {
    if (self == &main_task) {
        run_destructors(self);
        self->state = ENDED;
        wake(self, 1);
    } else {
        self->saved_errno = errno;
        reaped = self;
    }
    begin_loop();
    switch_to(&self->context, &loop_context, loop_stack, 8 * STACK);
    abort();
}

static void fiber_main(void) {
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
    if (self->behalf) self->side_call(self->argument);
    else self->result = self->start(self->argument);
    fiber_exit();
}

static void make_fiber(struct task *task) {
    task->fiber = true;
    task->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (task->stack == MAP_FAILED) give_up("no memory for a stack");
    getcontext(&task->context);
    task->context.uc_stack.ss_sp = task->stack;
    task->context.uc_stack.ss_size = STACK;
    makecontext(&task->context, fiber_main, 0);
}

int rt_spawn(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument, rt_start async,
             const struct rt_program *program) {
    struct task *task = calloc(1, sizeof *task);
    if (!task) return EAGAIN;
    task->identity = ++last_identity;
    task->start = start;
    task->async = async;
    task->argument = argument;
    if (program && program->version != RT_VERSION) give_up("the pass and the runtime are of different versions");
    if (program && program->locals_size) {
        task->locals = aligned_alloc(program->locals_alignment,
                                     (program->locals_size + program->locals_alignment - 1) / program->locals_alignment * program->locals_alignment);
        memcpy(task->locals, program->locals_image, program->locals_size);
    }
    int detached = 0;
    if (attributes) pthread_attr_getdetachstate(attributes, &detached);
    task->detached = detached == PTHREAD_CREATE_DETACHED;
    if (async) live_tasks++;
    else make_fiber(task);
    *thread = (pthread_t)task;
    ready(task);
    return 0;
}

struct rt_handle *rt_call_on_side_stack(void (*call)(void *), void *arguments) {
    struct task *side = calloc(1, sizeof *side);
    if (!side) give_up("out of memory for a side stack");
    side->side_call = call;
    side->argument = arguments;
    side->behalf = identity();
    side->saved_errno = errno;
    side->behalf->side = side;
    make_fiber(side);
    ready(side);
    self->state = WAITING;
    return &self->waiter;
}

void *rt_locals(void *own, const struct rt_program *program) {
    (void)program;
    struct task *task = identity();
    return task->locals ? task->locals : own;
}
