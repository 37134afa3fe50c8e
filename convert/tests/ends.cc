// The end of threads in the middle, as handlers see it: an abi::__forced_unwind, which std::async,
// streams and careful programs throw again.
// Runtime: product
#include <atomic>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <stdexcept>
#include <thread>

#include <cxxabi.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

static std::atomic<int> ended, forced, others;
static sem_t never;

static void fail(const char *what) {
  std::printf("%s\n", what);
  std::exit(1);
}

__attribute__((noinline)) static void wait() { sched_yield(); }

struct Guard {
  ~Guard() {
    wait();
    ended++;
  }
};

__attribute__((noinline)) static void leaves(bool exits) {
  Guard guard;
  wait();
  if (exits) pthread_exit(nullptr);
  sem_wait(&never);
}

// The end of the thread has a type of its own, so that handlers of everything else can be written.
static void *handles(void *argument) {
  Guard guard;
  try {
    Guard inner;
    leaves(argument);
  } catch (abi::__forced_unwind &) {
    wait();
    forced++;
    throw;
  } catch (const std::exception &) {
    others++;
  } catch (...) {
    others++;
  }
  return nullptr;
}

// Handlers in several frames, some of which know no types.
__attribute__((noinline)) static void passes(int depth, bool exits) {
  Guard guard;
  try {
    if (depth == 0) leaves(exits);
    else passes(depth - 1, exits);
  } catch (const std::runtime_error &) {
    others++;
  } catch (...) {
    wait();
    forced++;
    throw;
  }
}
static void *passes_by(void *argument) {
  passes(3, argument);
  return nullptr;
}

// A function that calls setjmp waits on a stack of its own.
__attribute__((noinline)) static void jumps(void *argument) {
  std::jmp_buf here;
  if (setjmp(here)) fail("jumped");
  leaves(argument);
}
static void *leaves_aside(void *argument) {
  Guard guard;
  try {
    jumps(argument);
  } catch (abi::__forced_unwind &) {
    forced++;
    throw;
  } catch (...) {
    others++;
  }
  wait();
  return nullptr;
}

// A task of std::async: its result is abandoned, not set to an exception of no type.
static void *packages(void *argument) {
  std::packaged_task<void()> task([argument] { leaves(argument); });
  auto future = task.get_future();
  task();
  others++;
  return nullptr;
}

// libstdc++ starts these threads.
static void leave_std_threads() {
  std::thread threads[4];
  for (std::thread &thread : threads) {
    thread = std::thread([] {
      Guard guard;
      leaves(true);
    });
  }
  for (std::thread &thread : threads) thread.join();
}

int main() {
  if (sem_init(&never, 0, 0)) fail("sem_init");
  leave_std_threads();
  void *(*const starts[])(void *) = {handles, passes_by, packages, leaves_aside};
  const int count = 60;
  pthread_t threads[count];
  for (int index = 0; index < count; index++) {
    void *exits = index % 2 ? &never : nullptr;
    if (pthread_create(&threads[index], nullptr, starts[index / 2 % 4], exits)) fail("pthread_create");
  }
  for (int index = 0; index < count; index++) {
    if (index % 2 == 0 && pthread_cancel(threads[index])) fail("pthread_cancel");
    void *result = &never;
    if (pthread_join(threads[index], &result)) fail("pthread_join");
    if (result != (index % 2 ? nullptr : PTHREAD_CANCELED)) fail("another result");
  }
  std::printf("ended %d, forced %d, others %d\n", ended.load(), forced.load(), others.load());
}
