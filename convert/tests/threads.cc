// Threads of C++, two hundred at once: exceptions over waits, destructors that wait, futures,
// condition variables, thread-local variables, the end of threads in the middle. Each thread checks
// its own results. The program prints the sum of all results.
// Runtime: product
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <unistd.h>

#include "check.h"

// ---- Exceptions

struct Problem : std::runtime_error {
  explicit Problem(int number) : std::runtime_error("problem"), number(number) {}
  int number;
};

// Counts its objects, and waits in its destructor.
struct Guard {
  explicit Guard(int &count) : count(count) { ++count; }
  ~Guard() {
    wait();
    --count;
  }
  int &count;
};

__attribute__((noinline)) static int throws(int depth, int number, int &alive) {
  Guard guard(alive);
  if (depth == 0) {
    if (number % 2) wait();
    throw Problem(number);
  }
  int below = throws(depth - 1, number, alive);
  wait();
  return below;
}

static int nested(int number) {
  int alive = 0, caught = 0;
  for (int round = 0; round < 3; round++) {
    try {
      throws(5, number + round, alive);
      CHECK(false);
    } catch (const Problem &problem) {
      wait();
      CHECK(problem.number == number + round && alive == 0);
      CHECK(std::uncaught_exceptions() == 0);
      try {
        // Another exception comes while this exception is handled, over a wait.
        wait();
        throws(2, 1000 + number, alive);
      } catch (const std::exception &inner) {
        wait();
        CHECK(std::string(inner.what()) == "problem");
        caught++;
      }
      // The outer exception is still the handled exception.
      std::exception_ptr now = std::current_exception();
      try {
        wait();
        std::rethrow_exception(now);
      } catch (const Problem &again) {
        CHECK(again.number == number + round);
      }
      caught++;
    }
  }
  return caught;
}

static int rethrown(int number) {
  int alive = 0;
  try {
    try {
      throws(3, number, alive);
    } catch (...) {
      wait();
      throw;
    }
  } catch (const Problem &problem) {
    wait();
    return problem.number;
  }
  return -1;
}

// An exception of another type passes, and a value is caught as its base.
static int selected(int number) {
  try {
    try {
      wait();
      if (number % 3 == 0) throw number;
      if (number % 3 == 1) throw std::string("text");
      throw Problem(number);
    } catch (const std::string &text) {
      wait();
      return static_cast<int>(text.size());
    }
  } catch (int value) {
    wait();
    return value % 3;
  } catch (const std::runtime_error &) {
    return 7;
  }
}

// Its destructor waits while an exception is on its way.
struct Sees {
  int &count;
  ~Sees() {
    wait();
    count = std::uncaught_exceptions();
  }
};
static int on_its_way(int number) {
  int seen = -1;
  try {
    Sees sees{seen};
    wait();
    throw Problem(number);
  } catch (const Problem &) {
  }
  CHECK(seen == 1 && std::uncaught_exceptions() == 0);
  return seen;
}

// ---- Virtual functions, with virtual bases

struct Base {
  virtual ~Base() { wait(); }
  virtual int answer(int number) = 0;
};
struct Left : virtual Base {
  int answer(int number) override {
    wait();
    return number + 1;
  }
};
struct Right : virtual Base {
  int kept = 5;
};
struct Both : Left, Right {
  int answer(int number) override {
    int below = Left::answer(number);
    wait();
    if (number % 5 == 0) throw Problem(below);
    return below + kept;
  }
};
static int dispatched(int number) {
  std::unique_ptr<Base> object;
  if (number % 2) object = std::make_unique<Both>();
  else object = std::make_unique<Left>();
  try {
    return object->answer(number) - number;
  } catch (const Problem &problem) {
    return problem.number - number;
  }
}

// ---- Functions that are values

static int composed(int number) {
  std::function<int(int)> inner = [number](int more) {
    wait();
    return number + more;
  };
  std::function<int(int)> outer = [inner](int more) {
    wait();
    return inner(more) * 2;
  };
  return outer(1) - 2 * number;
}

// ---- Locks and conditions

static std::mutex mutex;
static std::shared_mutex shared;
static std::condition_variable changed;
static std::deque<int> queue;
static int taken;

static int produces(int number) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    queue.push_back(number);
  }
  changed.notify_one();
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait(lock, [] { return !queue.empty(); });
  queue.pop_front();
  taken++;
  std::shared_lock<std::shared_mutex> reads(shared);
  wait();
  return 1;
}

static int times_out(int) {
  static std::mutex own;
  static std::condition_variable never;
  std::unique_lock<std::mutex> lock(own);
  return never.wait_for(lock, std::chrono::milliseconds(2)) == std::cv_status::timeout ? 1 : 0;
}

// ---- Futures

static int promised(int number) {
  std::promise<int> promise;
  std::future<int> future = promise.get_future();
  std::thread thread([&promise, number] {
    wait();
    if (number % 2) promise.set_value(number);
    else promise.set_exception(std::make_exception_ptr(Problem(number)));
  });
  int found = -1;
  try {
    found = future.get();
  } catch (const Problem &problem) {
    found = problem.number;
  }
  thread.join();
  return found - number;
}

static int asynchronous(int number) {
  auto future = std::async(std::launch::async, [number] {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (number % 2) throw Problem(number);
    return number;
  });
  CHECK(future.wait_for(std::chrono::seconds(50)) == std::future_status::ready);
  try {
    return future.get() - number;
  } catch (const Problem &problem) {
    return problem.number - number;
  }
}

// ---- Once, static and thread-local variables

static int made;
struct Made {
  Made() {
    wait();
    made++;
  }
};
static std::once_flag flag;
static std::atomic<int> tries;

static int once(int) {
  static Made one;
  try {
    std::call_once(flag, [] {
      wait();
      // The first try fails, and the next thread tries again.
      if (tries++ == 0) throw Problem(1);
    });
  } catch (const Problem &) {
    CHECK(tries == 1 || tries == 2);
  }
  return made;
}

static std::atomic<int> ended;
struct Own {
  int number = 0;
  ~Own() {
    wait();
    ended++;
  }
};
static thread_local Own own;
static int local(int number) {
  own.number = number;
  wait();
  CHECK(own.number == number);
  return 0;
}

// ---- The end of a thread in the middle

static std::atomic<int> unwound;
struct Unwound {
  ~Unwound() {
    wait();
    unwound++;
  }
};

__attribute__((noinline)) static void exits(int depth) {
  Unwound counted;
  wait();
  if (depth == 0) pthread_exit(reinterpret_cast<void *>(11));
  exits(depth - 1);
}
static void *exits_from(void *) {
  Unwound counted;
  try {
    exits(3);
  } catch (const Problem &) {
    CHECK(false);
  }
  return nullptr;
}

static sem_t never;
static void *is_cancelled(void *) {
  Unwound counted;
  try {
    Unwound inner;
    sem_wait(&never);
  } catch (...) {
    // The end of the thread passes through this handler.
    wait();
    throw;
  }
  return nullptr;
}

static void ends() {
  pthread_t threads[20];
  for (int index = 0; index < 20; index++) {
    CHECK(pthread_create(&threads[index], nullptr, index % 2 ? exits_from : is_cancelled,
                         nullptr) == 0);
  }
  for (int index = 0; index < 20; index++) {
    void *result = nullptr;
    if (index % 2 == 0) CHECK(pthread_cancel(threads[index]) == 0);
    CHECK(pthread_join(threads[index], &result) == 0);
    CHECK(result == (index % 2 ? reinterpret_cast<void *>(11) : PTHREAD_CANCELED));
  }
}

// The comparison waits, and throws through qsort's frames.
static int compares(const void *one, const void *other) {
  wait();
  int first = *static_cast<const int *>(one), second = *static_cast<const int *>(other);
  if (first == 13 || second == 13) throw Problem(13);
  return first - second;
}
static int sorted(int number) {
  int numbers[] = {3, 1, number % 2 ? 13 : 4, 5, 2};
  try {
    std::qsort(numbers, 5, sizeof *numbers, compares);
    return numbers[0];
  } catch (const Problem &problem) {
    wait();
    return problem.number;
  }
}

int main() {
  CHECK(sem_init(&never, 0, 0) == 0);
  using Job = int (*)(int);
  const Job jobs[] = {nested,   rethrown, selected, on_its_way,   dispatched, composed, produces,
                      times_out, promised, asynchronous, once,  local,      sorted};
  const int kinds = sizeof jobs / sizeof *jobs;
  std::vector<long> sums(kinds);
  std::vector<std::thread> threads;
  std::mutex adds;
  for (int index = 0; index < 200; index++) {
    threads.emplace_back([&, index] {
      int kind = index % kinds;
      long result = jobs[kind](index);
      // `made` is 1 from its first use on.
      if (kind != 10 || result == 1) {
        std::lock_guard<std::mutex> lock(adds);
        sums[kind] += result;
      }
    });
  }
  for (std::thread &thread : threads) thread.join();
  ends();
  for (int kind = 0; kind < kinds; kind++) std::printf("%d: %ld\n", kind, sums[kind]);
  std::printf("taken %d, queued %zu, made %d, ended %d, unwound %d\n", taken, queue.size(), made,
              ended.load(), unwound.load());
}
