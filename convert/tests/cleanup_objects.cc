// pthread_cleanup_push in C++, where it is an object with a destructor: cancellation in a wait, the
// end of the thread, and destructors of the program in between.
// Runtime: product
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <string>
#include <unistd.h>

static std::string text;
static sem_t reached;
static int pipes[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

struct Says {
    const char *what;
    ~Says() { text += what; }
};

static void note(void *what) { text += static_cast<const char *>(what); }
static void unlock(void *lock) {
    text += "unlocks ";
    pthread_mutex_unlock(static_cast<pthread_mutex_t *>(lock));
}

__attribute__((noinline)) static void blocks(bool exits) {
    char byte;
    sem_post(&reached);
    if (exits) pthread_exit(nullptr);
    while (read(pipes[0], &byte, 1) < 0) {
    }
}

__attribute__((noinline)) static void inner(bool exits) {
    pthread_cleanup_push(note, const_cast<char *>("inner "));
    Says says{"object "};
    blocks(exits);
    pthread_cleanup_pop(0);
}

static void *nested(void *exits) {
    Says says{"of the thread "};
    sched_yield();
    pthread_cleanup_push(note, const_cast<char *>("outer "));
    inner(exits != nullptr);
    pthread_cleanup_pop(1);
    return nullptr;
}

static void *in_condition(void *) {
    pthread_mutex_lock(&mutex);
    pthread_cleanup_push(unlock, &mutex);
    sem_post(&reached);
    for (;;) pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(1);
    return nullptr;
}

static void run(void *(*start)(void *), void *argument, bool cancels) {
    pthread_t thread;
    void *result;
    pthread_create(&thread, nullptr, start, argument);
    sem_wait(&reached);
    if (cancels) pthread_cancel(thread);
    pthread_join(thread, &result);
    text += result == PTHREAD_CANCELED ? "cancelled\n" : "ended\n";
}

int main() {
    if (pipe(pipes)) return 1;
    sem_init(&reached, 0, 0);
    run(nested, nullptr, true);
    run(nested, &text, false);
    run(in_condition, nullptr, true);
    if (pthread_mutex_trylock(&mutex)) text += "the mutex is held\n";
    fputs(text.c_str(), stdout);
}
