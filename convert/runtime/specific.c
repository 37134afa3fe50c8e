/* Thread-specific data. The keys are glibc's, so that pthreads and libraries may use them. The
 * values belong to the task. Each life of a key has a number, so that a new key finds no value of
 * an old key. */
#include "runtime.h"

#include <limits.h>
#include <stdlib.h>

struct specific {
    unsigned life;
    const void *value;
};

static struct key {
    unsigned life; /* odd: the key exists */
    void (*destructor)(void *);
} keys[PTHREAD_KEYS_MAX];

int rt_pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    int error = pthread_key_create(key, destructor);
    if (error || *key >= PTHREAD_KEYS_MAX) return error;
    keys[*key].destructor = destructor;
    __atomic_fetch_add(&keys[*key].life, 1, __ATOMIC_RELEASE);
    return 0;
}

int rt_pthread_key_delete(pthread_key_t key) {
    if (key < PTHREAD_KEYS_MAX && load(&keys[key].life) & 1) __atomic_fetch_add(&keys[key].life, 1, __ATOMIC_RELEASE);
    return pthread_key_delete(key);
}

void *rt_pthread_getspecific(pthread_key_t key) {
    struct task *task = identity();
    if (!task) return pthread_getspecific(key);
    struct rare *rare = task->rare;
    if (!rare || key >= rare->specific_count || rare->specific[key].life != load(&keys[key].life)) return NULL;
    return (void *)rare->specific[key].value;
}

static bool grow(struct rare *rare, pthread_key_t key) {
    unsigned count = (key + 8) & ~7u;
    struct specific *larger = realloc(rare->specific, count * sizeof *larger);
    if (!larger) return false;
    memset(larger + rare->specific_count, 0, (count - rare->specific_count) * sizeof *larger);
    rare->specific = larger;
    rare->specific_count = count;
    return true;
}

int rt_pthread_setspecific(pthread_key_t key, const void *value) {
    struct task *task = identity();
    if (!task) return pthread_setspecific(key, value);
    if (key >= PTHREAD_KEYS_MAX) return EINVAL;
    struct rare *rare = rare_try(task);
    if (!rare || (key >= rare->specific_count && !grow(rare, key))) return ENOMEM;
    rare->specific[key] = (struct specific){load(&keys[key].life), value};
    return 0;
}

static bool needs_destructor(struct rare *rare, unsigned key) {
    struct specific *specific = &rare->specific[key];
    return specific->value && keys[key].destructor && specific->life & 1 && specific->life == load(&keys[key].life);
}

bool specific_has_destructors(struct task *task) {
    struct rare *rare = task->rare;
    for (unsigned key = 0; rare && key < rare->specific_count; key++) {
        if (needs_destructor(rare, key)) return true;
    }
    return false;
}

void specific_destroy(struct task *task) {
    struct rare *rare = task->rare;
    for (int round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS && specific_has_destructors(task); round++) {
        for (unsigned key = 0; key < rare->specific_count; key++) {
            if (!needs_destructor(rare, key)) continue;
            void *value = (void *)rare->specific[key].value;
            rare->specific[key].value = NULL;
            keys[key].destructor(value);
        }
    }
}
