/* The reference runtime: the waits of operations for descriptors (epoll), objects (a hash of
 * queues) and times (a heap). */
#include "reference.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

enum { BUCKETS = 1024 };

static struct bucket {
    struct task *first, **last;
} buckets[BUCKETS];

static struct descriptor {
    struct watch *watches;
} *descriptors;
static size_t descriptor_count;
static int epoll = -1;

static struct task **heap; /* from 1 */
static size_t heap_used, heap_size;

/* ---- Times ---- */

static uint64_t key(size_t index) {
    return heap[index]->operation.deadline;
}

static void place(size_t index, struct task *task) {
    heap[index] = task;
    task->timer = index;
}

static void sift(size_t index, struct task *task) {
    uint64_t deadline = task->operation.deadline;
    while (index > 1 && key(index / 2) > deadline) {
        place(index, heap[index / 2]);
        index /= 2;
    }
    for (;;) {
        size_t child = 2 * index;
        if (child > heap_used) break;
        if (child < heap_used && key(child + 1) < key(child)) child++;
        if (key(child) >= deadline) break;
        place(index, heap[child]);
        index = child;
    }
    place(index, task);
}

static void set_timer(struct task *task) {
    if (heap_used + 2 > heap_size) heap = realloc(heap, (heap_size = 2 * heap_size + 64) * sizeof *heap);
    sift(++heap_used, task);
}

static void clear_timer(struct task *task) {
    size_t index = task->timer;
    if (!index) return;
    task->timer = 0;
    struct task *last = heap[heap_used--];
    if (last != task) sift(index, last);
}

/* ---- Descriptors ---- */

static void arm(int descriptor) {
    struct epoll_event event = {.events = EPOLLONESHOT, .data.fd = descriptor};
    for (struct watch *watch = descriptors[descriptor].watches; watch; watch = watch->next) event.events |= watch->events;
    /* A closed descriptor leaves the epoll set by itself, so this list may be out of date.
     */
    int saved = errno;
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, descriptor, &event) && errno == ENOENT) epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event);
    errno = saved;
}

static void watch(struct task *task, struct watch *watch) {
    if (epoll < 0) epoll = epoll_create1(EPOLL_CLOEXEC);
    size_t needed = watch->descriptor + 1;
    if (needed > descriptor_count) {
        size_t count = 2 * needed + 64;
        struct descriptor *larger = calloc(count, sizeof *larger);
        for (size_t index = 0; index < descriptor_count; index++) {
            larger[index] = descriptors[index];
            if (larger[index].watches) larger[index].watches->before = &larger[index].watches;
        }
        free(descriptors);
        descriptors = larger;
        descriptor_count = count;
    }
    watch->task = task;
    struct watch **list = &descriptors[watch->descriptor].watches;
    watch->next = *list;
    if (*list) (*list)->before = &watch->next;
    watch->before = list;
    *list = watch;
    arm(watch->descriptor);
}

static void unwatch(struct watch *watch) {
    if (!watch->before) return;
    *watch->before = watch->next;
    if (watch->next) watch->next->before = watch->before;
    watch->before = NULL;
}

/* ---- Objects ---- */

static struct bucket *bucket_of(const void *object) {
    struct bucket *bucket = &buckets[(uintptr_t)object / 8 % BUCKETS];
    if (!bucket->last) bucket->last = &bucket->first;
    return bucket;
}

static void leave_queue(struct task *task) {
    struct bucket *bucket = bucket_of(task->operation.object);
    for (struct task **link = &bucket->first; *link; link = &(*link)->queue_next) {
        if (*link != task) continue;
        *link = task->queue_next;
        if (bucket->last == &task->queue_next) bucket->last = link;
        return;
    }
}

/* ---- Waiting ---- */

static void wait_on(struct task *task) {
    struct operation *operation = &task->operation;
    task->state = WAITING;
    if (operation->object) {
        struct bucket *bucket = bucket_of(operation->object);
        task->queue_next = NULL;
        *bucket->last = task;
        bucket->last = &task->queue_next;
    }
    if (operation->descriptor >= 0) {
        operation->own = (struct watch){.descriptor = operation->descriptor, .events = operation->events};
        watch(task, &operation->own);
    }
    for (size_t index = 0; index < operation->watch_count; index++) watch(task, &operation->watches[index]);
    if (operation->deadline) set_timer(task);
}

void unwait(struct task *task) {
    struct operation *operation = &task->operation;
    if (task->state != WAITING) return;
    clear_timer(task);
    if (operation->object) leave_queue(task);
    operation->object = NULL;
    unwatch(&operation->own);
    for (size_t index = 0; index < operation->watch_count; index++) unwatch(&operation->watches[index]);
    operation->watch_count = 0;
    free(operation->watches);
    operation->watches = NULL;
    operation->descriptor = -1;
}

/* Tries an operation again, because its event may have happened. */
void retry(struct task *task) {
    struct task *before = self;
    int saved = errno;
    unwait(task);
    self = task;
    errno = task->saved_errno;
    bool done = task->operation.attempt(&task->operation);
    task->saved_errno = task->operation.error;
    self = before;
    errno = saved;
    if (done) ready(task);
    else wait_on(task);
}

/* Retries the tasks that wait for the object, in their order, until `count` tasks could go on. */
void wake(const void *object, int count) {
    struct bucket *bucket = bucket_of(object);
    struct task *next;
    for (struct task *task = bucket->first; task && count > 0; task = next) {
        next = task->queue_next;
        if (task->operation.object != object) continue;
        task->operation.signalled = true;
        retry(task);
        if (task->state == READY || task->operation.object != object) count--;
        else return; /* if the first cannot go on, the next cannot either */
    }
}

bool perform(bool (*attempt)(struct operation *), int count, const long *arguments) {
    struct operation *operation = &self->operation;
    *operation = (struct operation){.attempt = attempt, .descriptor = -1};
    for (int index = 0; index < count; index++) operation->argument[index] = arguments[index];
    operation->error = errno;
    if (identity()->cancelled && !identity()->cancel_disabled) {
        identity()->result = PTHREAD_CANCELED;
        if (self->fiber) {
            self->exiting = true;
            self->result = PTHREAD_CANCELED;
            rt_block_pthread_exit(PTHREAD_CANCELED);
        }
        self->exiting = true;
        return false;
    }
    if (attempt(operation)) {
        errno = operation->error;
        return true;
    }
    wait_on(self);
    return false;
}

static void expire(void) {
    uint64_t time = now();
    while (heap_used && key(1) <= time) {
        struct task *task = heap[1];
        task->operation.timed_out = true;
        retry(task);
    }
}

/* In the child of a fork no other task waits, and the poller belongs to the parent. */
void forget_all(void) {
    memset(buckets, 0, sizeof buckets);
    memset(descriptors, 0, descriptor_count * sizeof *descriptors);
    heap_used = 0;
    if (epoll >= 0) close(epoll);
    epoll = -1;
}

/* A signal interrupts the wait of the first thread, as if the kernel had chosen that thread. */
static void interrupt_main(void) {
    struct task *task = &main_task;
    if (task->state != WAITING || !task->operation.interruptible) return;
    unwait(task);
    task->operation.value = -1;
    task->saved_errno = EINTR;
    ready(task);
}

void wait_for_events(void) {
    struct epoll_event events[256];
    if (epoll < 0) epoll = epoll_create1(EPOLL_CLOEXEC);
    int timeout = -1;
    if (heap_used) {
        uint64_t time = now();
        timeout = key(1) <= time ? 0 : (int)((key(1) - time + 999999) / 1000000);
    }
    int count = syscall(SYS_epoll_wait, epoll, events, 256, timeout);
    if (count < 0 && errno == EINTR) interrupt_main();
    for (int index = 0; index < count; index++) {
        int descriptor = events[index].data.fd;
        unsigned happened = events[index].events;
        struct watch *next;
        for (struct watch *watch = descriptors[descriptor].watches; watch; watch = next) {
            next = watch->next;
            if (!(watch->events & happened) && !(happened & (EPOLLERR | EPOLLHUP))) continue;
            struct task *task = watch->task;
            /* If a poll has several entries for one descriptor, all watches leave the list
             * together. */
            while (next && next->task == task) next = next->next;
            retry(task);
        }
        if (descriptors[descriptor].watches) arm(descriptor);
    }
    expire();
}
