// Waits of C++20, and waits of C++ without a name: latches, semaphores, barriers, atomic variables,
// stop tokens. Static variables that several threads initialise at once.
// Runtime: product
// Flags: -std=c++20
#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <latch>
#include <mutex>
#include <semaphore>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <vector>

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

template <typename Job> static void run(int count, Job job) {
  std::vector<std::jthread> threads;
  for (int index = 0; index < count; index++) threads.emplace_back([=] { job(index); });
}

// ---- A turn for each, handed on by an atomic variable

static std::atomic<int> turn, handed;
static void takes_its_turn(int index) {
  for (int now = turn; now != index; now = turn) turn.wait(now);
  handed++;
  turn = index + 1;
  turn.notify_all();
}

// ---- A latch, a barrier, semaphores

static std::latch all_here(40);
static std::barrier rounds(40);
static std::counting_semaphore<1000> places(3);
static std::binary_semaphore never(0);
static std::atomic<int> arrived, inside, most, in_round[3];

static void meets(int) {
  arrived++;
  all_here.arrive_and_wait();
  CHECK(arrived == 40);
  for (int round = 0; round < 3; round++) {
    in_round[round]++;
    rounds.arrive_and_wait();
    CHECK(in_round[round] == 40);
  }
  places.acquire();
  int now = ++inside, before = most;
  while (before < now && !most.compare_exchange_weak(before, now)) {}
  wait();
  inside--;
  places.release();
  CHECK(!never.try_acquire_for(std::chrono::milliseconds(1)));
}

// ---- futex(2) itself

static unsigned word;
static long futex(int operation, unsigned value, const timespec *time) {
  return syscall(SYS_futex, &word, operation, value, time, nullptr, FUTEX_BITSET_MATCH_ANY);
}
static void asks_the_kernel(int) {
  timespec none = {0, 0}, short_time = {0, 1000000}, wrong = {0, -1};
  errno = 0;
  CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 1u, nullptr) == -1 && errno == EAGAIN);
  CHECK(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0u, &short_time) == -1 && errno == ETIMEDOUT);
  CHECK(syscall(SYS_futex, &word, FUTEX_WAIT, 0u, &wrong) == -1 && errno == EINVAL);
  CHECK(syscall(SYS_futex, reinterpret_cast<char *>(&word) + 1, FUTEX_WAIT_PRIVATE, 0u, nullptr) == -1);
  CHECK(errno == EINVAL);
  // The time has passed.
  CHECK(futex(FUTEX_WAIT_BITSET_PRIVATE, 0, &none) == -1 && errno == ETIMEDOUT);
  CHECK(futex(FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, &none) == -1);
  CHECK(errno == ETIMEDOUT);
  unsigned own = 0;
  CHECK(syscall(SYS_futex, &own, FUTEX_WAKE_PRIVATE, 1) == 0);
}

// ---- Static variables

static std::atomic<int> tries, made, in_making;
struct Made {
  Made() {
    CHECK(++in_making == 1);
    wait();
    int now = ++tries;
    in_making--;
    // Two tries fail, and the next thread tries again.
    if (now < 3) throw std::runtime_error("not yet");
    made++;
  }
  int value = 5;
};
static Made &shared() {
  static Made one;
  return one;
}
static std::atomic<int> failed;
static void initialises(int) {
  for (;;) {
    try {
      CHECK(shared().value == 5);
      return;
    } catch (const std::runtime_error &) {
      failed++;
      wait();
    }
  }
}

// ---- Threads that are asked to stop

static std::atomic<int> stopped;
static void stops() {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::vector<std::jthread> threads;
  for (int index = 0; index < 20; index++) {
    threads.emplace_back([&](std::stop_token token) {
      std::unique_lock lock(mutex);
      changed.wait(lock, token, [] { return false; });
      CHECK(token.stop_requested());
      stopped++;
    });
  }
}

// ---- An exception that a function does not let out is caught in it

static int inner(int index) noexcept {
  try {
    wait();
    if (index % 2) throw index;
  } catch (int value) {
    wait();
    return value;
  }
  return 0;
}
static std::atomic<int> sum;

int main() {
  run(40, takes_its_turn);
  run(40, meets);
  run(8, asks_the_kernel);
  run(40, initialises);
  run(10, [](int index) { sum += inner(index); });
  stops();
  CHECK(most <= 3);
  std::printf("%d %d %d %d %d %d %d\n", handed.load(), tries.load(), made.load(), failed.load(),
              shared().value, stopped.load(), sum.load());
}
