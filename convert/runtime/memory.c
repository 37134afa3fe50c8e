/* Memory of frames and tasks.
 *
 * Frames come from blocks of frames of one size. Each loop has a pool of such blocks, and so has a
 * thread that has left its loop. Other threads share a pool. A frame goes back to the pool that it
 * came from. Blocks without frames are for all pools. Tasks come from one region of addresses, so
 * that a pthread_t shows whether it is a task.
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

enum { STEP = 16, LARGEST = 4096, CLASSES = LARGEST / STEP, BLOCK = 65536, REGION_OF_BLOCKS = 16 * BLOCK };
/* The empty blocks that keep their memory, for the next burst. */
enum { RESERVE = 16 };

/* Frames of one size, in memory that is aligned to its size. The frames follow this header. */
struct block {
    struct pool *pool;
    struct block *next, **place; /* in the list of its class, if frames are free */
    void *free;                  /* frames that were used before */
    unsigned fresh;              /* the offset of the frames that never were */
    unsigned size, used;
} __attribute__((aligned(STEP)));

/* One thread at a time uses a pool, and takes no lock. */
struct pool {
    struct block *open[CLASSES + 1]; /* blocks with free frames */
    void *returned;                  /* frames that other threads have freed */
    struct pool *next;               /* a pool without a thread */
};

static struct pool shared_pool;
/* Guards the variables below, and the pool of threads that have none of their own. */
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *empty; /* blocks that were used before, by `next` */
static unsigned empty_count;
static char *fresh_blocks, *fresh_end;
static struct pool *orphans;

_Thread_local struct pool *own_pool;

struct pool *pool_new(void) {
    pthread_mutex_lock(&pool_lock);
    struct pool *pool = orphans;
    if (pool) orphans = pool->next;
    pthread_mutex_unlock(&pool_lock);
    if (!pool) pool = calloc(1, sizeof *pool);
    if (!pool) give_up("out of memory for a loop");
    return pool;
}

void pool_leave(struct pool *pool) {
    pthread_mutex_lock(&pool_lock);
    pool->next = orphans;
    orphans = pool;
    pthread_mutex_unlock(&pool_lock);
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

/* ---- Blocks ---- */

/* A block that was never used, under the lock. */
static struct block *make_block(void) {
    if (fresh_blocks == fresh_end) {
        void *region = mmap(NULL, REGION_OF_BLOCKS + BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (region == MAP_FAILED) give_up("out of memory for the frames of functions");
        fresh_blocks = (char *)(((uintptr_t)region + BLOCK - 1) & -(uintptr_t)BLOCK);
        fresh_end = fresh_blocks + REGION_OF_BLOCKS;
    }
    struct block *block = (struct block *)fresh_blocks;
    fresh_blocks += BLOCK;
    return block;
}

static struct block *take_block(bool locks) {
    if (locks) pthread_mutex_lock(&pool_lock);
    struct block *block = empty;
    if (block) {
        empty = block->next;
        empty_count--;
    } else {
        block = make_block();
    }
    if (locks) pthread_mutex_unlock(&pool_lock);
    return block;
}

/* After a burst, the memory of most blocks goes back to the kernel, except for their first page. */
static void give_block(struct block *block, bool locks) {
    enum { PAGE = 4096 };
    if (locks) pthread_mutex_lock(&pool_lock);
    if (empty_count >= RESERVE) madvise((char *)block + PAGE, BLOCK - PAGE, MADV_DONTNEED);
    block->next = empty;
    empty = block;
    empty_count++;
    if (locks) pthread_mutex_unlock(&pool_lock);
}

static void link_block(struct block **list, struct block *block) {
    block->next = *list;
    block->place = list;
    if (*list) (*list)->place = &block->next;
    *list = block;
}

static void unlink_block(struct block *block) {
    *block->place = block->next;
    if (block->next) block->next->place = block->place;
}

static bool is_full(const struct block *block) { return !block->free && block->fresh + block->size > BLOCK; }

/* ---- Frames ---- */

static inline void *take_from(struct block *block) {
    void *frame = block->free;
    if (frame) {
        block->free = *(void **)frame;
    } else {
        frame = (char *)block + block->fresh;
        block->fresh += block->size;
    }
    block->used++;
    if (is_full(block)) unlink_block(block);
    return frame;
}

static struct block *block_of(void *frame) { return (struct block *)((uintptr_t)frame & -(uintptr_t)BLOCK); }

static void give_to(struct pool *pool, void *frame, bool locks) {
    struct block *block = block_of(frame), **list = &pool->open[block->size / STEP];
    if (is_full(block)) link_block(list, block);
    *(void **)frame = block->free;
    block->free = frame;
    if (--block->used == 0 && (block->next || *list != block)) {
        unlink_block(block);
        give_block(block, locks);
    }
}

/* Takes back what other threads have freed. */
static void collect(struct pool *pool, bool locks) {
    void *frame = __atomic_exchange_n(&pool->returned, NULL, __ATOMIC_ACQUIRE);
    while (frame) {
        void *next = *(void **)frame;
        give_to(pool, frame, locks);
        frame = next;
    }
}

static void *take_slowly(struct pool *pool, size_t class, bool locks) {
    if (load(&pool->returned)) collect(pool, locks);
    struct block *block = pool->open[class];
    if (!block) {
        block = take_block(locks);
        *block = (struct block){.pool = pool, .fresh = sizeof *block, .size = class * STEP};
        link_block(&pool->open[class], block);
    }
    return take_from(block);
}

static void *take_shared(size_t class) {
    if (left) {
        own_pool = pool_new();
        return take_slowly(own_pool, class, true);
    }
    pthread_mutex_lock(&pool_lock);
    void *frame = take_slowly(&shared_pool, class, false);
    pthread_mutex_unlock(&pool_lock);
    return frame;
}

static size_t class_of(size_t size) { return (size + STEP - 1) / STEP; }

void *rt_frame_allocate(size_t size, size_t alignment) {
    if (is_large(size, alignment)) return allocate_large(size, alignment);
    size_t class = class_of(size);
    if (!own_pool) return take_shared(class);
    struct block *block = own_pool->open[class];
    return block ? take_from(block) : take_slowly(own_pool, class, true);
}

void rt_frame_free(void *frame, size_t size, size_t alignment) {
    if (is_large(size, alignment)) {
        free(frame);
        return;
    }
    struct pool *pool = block_of(frame)->pool;
    if (pool == own_pool) {
        give_to(pool, frame, true);
        return;
    }
    void *first = __atomic_load_n(&pool->returned, __ATOMIC_RELAXED);
    do *(void **)frame = first;
    while (!__atomic_compare_exchange_n(&pool->returned, &first, frame, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
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
