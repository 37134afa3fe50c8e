// Coroutines of C++20 in threads: bodies that wait, that throw, that are left in the middle; tasks
// that resume each other by symmetric transfer.
// Flags: -std=c++20
// Runtime: product
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>
#include <semaphore.h>

#include "check.h"

// Counts its lives, and waits as it ends.
struct Guard {
  explicit Guard(int &count) : count(count) { ++count; }
  ~Guard() {
    wait();
    --count;
  }
  int &count;
};

// ---- A generator: its body runs below the thread that resumes it.

struct Generator {
  struct promise_type {
    int value = 0;
    Generator get_return_object() {
      return Generator{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    std::suspend_always yield_value(int next) {
      wait();
      value = next;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { throw; }
  };

  explicit Generator(std::coroutine_handle<promise_type> handle) : handle(handle) {}
  Generator(Generator &&other) : handle(std::exchange(other.handle, nullptr)) {}
  ~Generator() {
    if (handle) handle.destroy();
  }
  bool next() {
    handle.resume();
    return !handle.done();
  }
  int value() const { return handle.promise().value; }

  std::coroutine_handle<promise_type> handle;
};

static Generator numbers(int from, int count, int &alive) {
  Guard guard(alive);
  for (int number = from; number < from + count; number++) {
    wait();
    try {
      if (number % 3 == 0) throw std::runtime_error("three");
    } catch (const std::exception &) {
      wait();
      continue;
    }
    co_yield number;
  }
  wait();
  if (count == 5) throw std::logic_error("five");
}

static int generated(int number) {
  int sum = 0, alive = 0;
  {
    Generator all = numbers(number, 6, alive);
    while (all.next()) sum += all.value();
    CHECK(alive == 0);
  }
  {
    Generator some = numbers(number, 9, alive);
    CHECK(some.next());
    CHECK(alive == 1);
    sum += some.value();
  }
  CHECK(alive == 0);
  try {
    Generator fails = numbers(number, 5, alive);
    while (fails.next()) sum += fails.value();
    CHECK(false);
  } catch (const std::logic_error &) {
    wait();
    sum++;
  }
  CHECK(alive == 0 && std::uncaught_exceptions() == 0);
  return sum;
}

// ---- Tasks: the end of one is a jump to the one that awaits it.

struct Task {
  struct promise_type {
    int result = 0;
    std::exception_ptr failure;
    std::coroutine_handle<> awaiting;

    struct Final {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> ended) noexcept {
        return ended.promise().awaiting ? ended.promise().awaiting : std::noop_coroutine();
      }
      void await_resume() noexcept {}
    };

    Task get_return_object() {
      return Task{std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    Final final_suspend() noexcept { return {}; }
    void return_value(int value) { result = value; }
    void unhandled_exception() { failure = std::current_exception(); }
  };

  explicit Task(std::coroutine_handle<promise_type> handle) : handle(handle) {}
  Task(Task &&other) : handle(std::exchange(other.handle, nullptr)) {}
  ~Task() {
    if (handle) handle.destroy();
  }
  bool await_ready() { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> from) {
    handle.promise().awaiting = from;
    return handle;
  }
  int await_resume() {
    if (handle.promise().failure) std::rethrow_exception(handle.promise().failure);
    return handle.promise().result;
  }

  std::coroutine_handle<promise_type> handle;
};

static Task deep(int depth, int &alive) {
  Guard guard(alive);
  wait();
  if (depth == 0) throw std::runtime_error("bottom");
  int below = 0;
  try {
    below = co_await deep(depth - 1, alive);
  } catch (const std::runtime_error &) {
    wait();
    below = 100;
  }
  wait();
  co_return below + depth;
}

static int awaited(int number) {
  int alive = 0;
  Task task = deep(number % 7 + 1, alive);
  task.handle.resume();
  CHECK(task.handle.done() && alive == 0);
  return task.await_resume();
}

int main() {
  std::vector<int> sums(200);
  std::vector<std::thread> threads;
  for (int number = 0; number < 200; number++)
    threads.emplace_back([&, number] { sums[number] = generated(number) + awaited(number); });
  int sum = 0;
  for (int number = 0; number < 200; number++) {
    threads[number].join();
    sum += sums[number];
  }
  std::printf("%d\n", sum);
}
