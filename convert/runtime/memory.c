/* Memory of frames and tasks.
 *
 * Frames come from free lists by size. Each loop has its own lists, and other threads share one
 * pool. Tasks come from one region of addresses, so that a pthread_t shows whether it is a task.
 */
#include "runtime.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(MALLOC_FRAMES)
#define MALLOC_FRAMES
#endif
#endif

enum { STEP = 16, LARGEST = 4096, CLASSES = LARGEST / STEP, BLOCK = 65536 };
/* The blocks of one size that a loop keeps for itself. A task may allocate a block between
 * duality_detach and duality_attach, and free it on its loop, or the other way round. So each side
 * takes the blocks that the other has in excess. */
enum { KEPT = 4096 };

struct pool {
    struct class {
        void *free;
        unsigned count;
    } classes[CLASSES + 1];
    char *next, *end; /* the rest of the block that new frames come from */
};

static struct pool shared_pool;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;

struct pool *pool_new(void) {
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool) give_up("out of memory for a loop");
    return pool;
}

static void *allocate_large(size_t size, size_t alignment) {
    void *memory = alignment <= STEP ? malloc(size) : aligned_alloc(alignment, (size + alignment - 1) & -alignment);
    if (!memory) give_up("out of memory for the frame of a function");
    return memory;
}

#ifdef MALLOC_FRAMES
/* All frames come from malloc, for tools that look for uses after free. */
static bool is_large(size_t size, size_t alignment) { return (void)size, (void)alignment, true; }

/* LeakSanitizer asks this function before it looks for leaks. It would look for pointers in the
 * stacks of kernel threads, and take everything for a leak that only tasks point to. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) { return 1; }
#else
static bool is_large(size_t size, size_t alignment) { return size > LARGEST || alignment > STEP; }
#endif

static void *new_frame(struct pool *pool, size_t size) {
    if ((size_t)(pool->end - pool->next) < size) {
        char *block = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED) give_up("out of memory for the frames of functions");
        /* The rest of the last block is smaller than the largest frame, and is lost. */
        pool->next = block;
        pool->end = block + BLOCK;
    }
    void *frame = pool->next;
    pool->next += size;
    return frame;
}

static inline void *pool_take(struct class *class) {
    void *frame = class->free;
    if (!frame) return NULL;
    class->free = *(void **)frame;
    class->count--;
    return frame;
}

static inline void pool_give(struct class *class, void *frame) {
    *(void **)frame = class->free;
    class->free = frame;
    class->count++;
}

static size_t class_of(size_t size) { return (size + STEP - 1) / STEP; }

/* Allocates if the loop has no block left, or if the thread is no loop. */
static void *allocate_elsewhere(size_t class) {
    struct class *shared = &shared_pool.classes[class];
    void *frame = NULL;
    if (!own_loop || __atomic_load_n(&shared->count, __ATOMIC_RELAXED)) {
        pthread_mutex_lock(&pool_lock);
        frame = pool_take(shared);
        if (!frame && !own_loop) frame = new_frame(&shared_pool, class * STEP);
        pthread_mutex_unlock(&pool_lock);
    }
    return frame ? frame : new_frame(own_loop->pool, class * STEP);
}

static void free_elsewhere(void *frame, size_t class) {
    pthread_mutex_lock(&pool_lock);
    pool_give(&shared_pool.classes[class], frame);
    pthread_mutex_unlock(&pool_lock);
}

void *rt_frame_allocate(size_t size, size_t alignment) {
    if (is_large(size, alignment)) return allocate_large(size, alignment);
    size_t class = class_of(size);
    void *frame = own_loop ? pool_take(&own_loop->pool->classes[class]) : NULL;
    return frame ? frame : allocate_elsewhere(class);
}

void rt_frame_free(void *frame, size_t size, size_t alignment) {
    if (is_large(size, alignment)) {
        free(frame);
        return;
    }
    size_t class = class_of(size);
    if (own_loop && own_loop->pool->classes[class].count < KEPT) pool_give(&own_loop->pool->classes[class], frame);
    else free_elsewhere(frame, class);
}

/* ---- Arrays: variable-length arrays and alloca ---- */

struct array {
    struct array *next;
    size_t size, alignment; /* of the whole, for the pool */
};

void *rt_array_allocate(void **list, size_t size, size_t alignment) {
    if (alignment < STEP) alignment = STEP;
    size_t offset = (sizeof(struct array) + alignment - 1) & -alignment;
    struct array *array = rt_frame_allocate(offset + size, alignment);
    *array = (struct array){*list, offset + size, alignment};
    *list = array;
    return (char *)array + offset;
}

void rt_array_release(void **list, void *mark) {
    while (*list != mark) {
        struct array *array = *list;
        *list = array->next;
        rt_frame_free(array, array->size, array->alignment);
    }
}

/* ---- Tasks ---- */

/* The runtime reserves addresses for 76 million tasks, and makes them accessible at their first
 * use. */
static const size_t REGION = (size_t)16 << 30, SLAB = 1 << 20, SMALLEST_REGION = (size_t)4 << 20;

static struct task *region;
static size_t region_size, region_used, region_open;
static struct task *free_tasks; /* linked by `result` */
static pthread_mutex_t task_lock = PTHREAD_MUTEX_INITIALIZER;

static bool reserve(void) {
    /* Under a limit of address space (ulimit -v), stacks and the heap need their share. */
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    getrlimit(RLIMIT_AS, &limit);
    for (size_t size = REGION; size >= SMALLEST_REGION; size /= 2) {
        if (limit.rlim_cur != RLIM_INFINITY && size > limit.rlim_cur / 16) continue;
        void *place = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (place == MAP_FAILED) continue;
        store(&region_size, size);
        store(&region, place);
        return true;
    }
    return false;
}

/* For debuggers (gdb.py): the place of the tasks, and the offsets of the fields that a debugger
 * reads. A task waits if its state is the engine's PARKED. */
enum { ENGINE_STATE = 69, PARKED = 3 };
static const struct {
    struct task **first;
    size_t *used, size, state, parked, parent;
} duality_tasks __attribute__((used)) = {
    &region, &region_used, sizeof(struct task), ENGINE_STATE, PARKED, offsetof(struct task, parent),
};

static struct task *new_task(void) {
    if (!region && !reserve()) return NULL;
    if (region_used + sizeof(struct task) > region_size) return NULL;
    if (region_used + sizeof(struct task) > region_open) {
        if (mprotect((char *)region + region_open, SLAB, PROT_READ | PROT_WRITE)) return NULL;
        region_open += SLAB;
    }
    struct task *task = (struct task *)((char *)region + region_used);
    region_used += sizeof *task;
    return task;
}

struct task *task_allocate(void) {
    pthread_mutex_lock(&task_lock);
    struct task *task = free_tasks;
    if (task) free_tasks = task->result;
    else task = new_task();
    pthread_mutex_unlock(&task_lock);
    if (task) memset(task, 0, sizeof *task);
    return task;
}

void task_free(struct task *task) {
    pthread_mutex_lock(&task_lock);
    task->result = free_tasks;
    free_tasks = task;
    pthread_mutex_unlock(&task_lock);
}

bool is_task(pthread_t thread) {
    uintptr_t start = (uintptr_t)load(&region);
    return start && thread - start < load(&region_size);
}

int task_number(const struct task *task) { return FIRST_TASK_NUMBER + (int)(task - region); }

struct task *task_numbered(int number) {
    pthread_mutex_lock(&task_lock);
    size_t index = (size_t)(number - FIRST_TASK_NUMBER);
    bool exists = number >= FIRST_TASK_NUMBER && index < region_used / sizeof(struct task);
    pthread_mutex_unlock(&task_lock);
    return exists ? region + index : NULL;
}

struct rare *rare_try(struct task *task) {
    struct rare *rare = load(&task->rare);
    if (rare) return rare;
    /* Other threads may need the rare part at the same time. */
    struct rare *made = calloc(1, sizeof *made), *none = NULL;
    if (!made || __atomic_compare_exchange_n(&task->rare, &none, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) return made;
    free(made);
    return none;
}

struct rare *rare_of(struct task *task) {
    struct rare *rare = rare_try(task);
    if (!rare) give_up("out of memory for a thread");
    return rare;
}

/* The program's thread-local variables. */
void *rt_locals(void *own, const struct rt_program *program) {
    struct task *task = identity();
    if (!task) return own;
    struct rare *rare = rare_of(task);
    if (!rare->locals) {
        size_t alignment = program->locals_alignment;
        rare->locals = aligned_alloc(alignment, (program->locals_size + alignment - 1) & -alignment);
        if (!rare->locals) give_up("out of memory for thread-local variables");
        memcpy(rare->locals, program->locals_image, program->locals_size);
    }
    return rare->locals;
}

void memory_before_fork(void) {
    pthread_mutex_lock(&pool_lock);
    pthread_mutex_lock(&task_lock);
}

void memory_after_fork(bool child) {
    (void)child;
    pthread_mutex_unlock(&task_lock);
    pthread_mutex_unlock(&pool_lock);
}
