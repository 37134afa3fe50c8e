// Exception specifications and the end of the process by std::terminate, in threads that wait. Each
// case ends a child, which says how it came there.
// Flags: -std=c++14
// Runtime: product
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) static void wait() { sched_yield(); }

static void check(bool holds, const char *what) {
  if (holds) return;
  std::printf("not so: %s\n", what);
  std::exit(1);
}

struct Guard {
  ~Guard() { wait(); }
};

__attribute__((noinline)) static void throws(int depth, int number) {
  Guard guard;
  wait();
  if (depth == 0) {
    if (number % 3 == 0) throw number;
    if (number % 3 == 1) throw std::runtime_error("text");
    throw std::string("string");
  }
  throws(depth - 1, number);
}

// ---- Exception specifications that let pass, and those that replace

static void lets_pass(int number) throw(int, std::exception) {
  Guard guard;
  throws(2, number);
}
static void replaces(int number) throw(std::bad_exception) {
  Guard guard;
  wait();
  throws(2, number);
}

static int specified(int number) {
  int found = 0;
  try {
    lets_pass(number / 3 * 3);
  } catch (int) {
    wait();
    found += 1;
  }
  try {
    lets_pass(number / 3 * 3 + 1);
  } catch (const std::runtime_error &) {
    wait();
    found += 10;
  }
  try {
    replaces(number);
  } catch (const std::bad_exception &) {
    wait();
    found += 100;
  }
  return found;
}

// What the handler of unexpected exceptions throws is one that the specification allows.
static void unexpected() {
  wait();
  throw std::bad_exception();
}

// ---- noexcept: what is thrown and caught inside is no matter

static int inside(int number) noexcept {
  Guard guard;
  try {
    throws(3, number);
  } catch (...) {
    wait();
    return 1000;
  }
  return 0;
}

// ---- The end

static void leaves_noexcept() noexcept {
  wait();
  throws(2, 0);
}
struct Throws {
  ~Throws() noexcept(false) {
    wait();
    throw 2;
  }
};
static void *nothing(void *) {
  leaves_noexcept();
  return nullptr;
}

static void no_handler() { throws(3, 1); }
static void is_noexcept() {
  try {
    leaves_noexcept();
  } catch (...) {
    std::printf("caught\n");
  }
}
static void two_at_once() {
  try {
    Throws thrower;
    wait();
    throw 1;
  } catch (int) {
    std::printf("caught\n");
  }
}
static void nothing_handled() {
  wait();
  throw;
}
static void not_allowed() {
  try {
    wait();
    lets_pass(2);
  } catch (...) {
    std::printf("caught\n");
  }
}
static void not_joined() {
  std::thread thread([] { wait(); });
  wait();
}
static void of_pthread() {
  pthread_t thread;
  check(pthread_create(&thread, nullptr, nothing, nullptr) == 0, "pthread_create");
  pthread_join(thread, nullptr);
}

static const char *name;

// Without a handler, no destructor runs.
struct Says {
  ~Says() {
    wait();
    std::printf("%s: unwound\n", name);
  }
};
__attribute__((noinline)) static void has_not_waited(int depth) {
  Says says;
  if (depth == 0) throw depth;
  has_not_waited(depth - 1);
}
static void never_waited() { has_not_waited(3); }

[[noreturn]] static void terminated() {
  std::exception_ptr now = std::current_exception();
  const char *what = now ? "another" : "none";
  try {
    if (now) std::rethrow_exception(now);
  } catch (int) {
    what = "int";
  } catch (const std::runtime_error &) {
    what = "runtime_error";
  } catch (const std::exception &) {
    what = "exception";
  } catch (...) {
  }
  std::printf("%s: terminated, %s\n", name, what);
  std::fflush(stdout);
  _exit(7);
}

static void ends(const char *of, void (*start)()) {
  std::fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    alarm(20);
    name = of;
    std::set_terminate(terminated);
    std::set_unexpected(std::terminate);
    std::thread thread(start);
    thread.join();
    std::printf("%s: goes on\n", of);
    std::exit(0);
  }
  int status = 0;
  check(child > 0 && waitpid(child, &status, 0) == child, "fork");
  std::printf("%s: %s %d\n", of, WIFEXITED(status) ? "exit" : "signal",
              WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

int main() {
  ends("no handler", no_handler);
  ends("never waited", never_waited);
  ends("noexcept", is_noexcept);
  ends("two at once", two_at_once);
  ends("nothing handled", nothing_handled);
  ends("not allowed", not_allowed);
  ends("not joined", not_joined);
  ends("of a pthread", of_pthread);
  std::set_unexpected(unexpected);
  std::atomic<int> sum(0);
  std::vector<std::thread> threads;
  for (int number = 0; number < 100; number++)
    threads.emplace_back([&sum, number] { sum += specified(number) + inside(number); });
  for (std::thread &thread : threads) thread.join();
  std::printf("%d\n", sum.load());
  ends("afterwards", no_handler);
}
