// Exceptions that pass over functions that may wait, but have not waited: each such function leaves
// no memory behind.
// Runtime: product
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include <sched.h>

static volatile int waits;
static int cleaned;
struct Cleans {
  ~Cleans() { cleaned++; }
};

__attribute__((noinline)) static void wait() {
  if (waits) sched_yield();
}

// No function below waits. Each could.
__attribute__((noinline)) static void plain(int depth, int number) {
  wait();
  if (depth == 0 && number % 2) throw number;
  if (depth == 0) throw std::runtime_error("even");
  plain(depth - 1, number);
  wait();
}

__attribute__((noinline)) static void cleans(int depth, int number) {
  Cleans here;
  if (depth == 0) plain(5, number);
  else cleans(depth - 1, number);
  wait();
}

// A handler for another type, and one that throws again.
__attribute__((noinline)) static void handles(int number) {
  try {
    try {
      cleans(3, number);
    } catch (const std::string &) {
      std::printf("another type\n");
    }
  } catch (const std::runtime_error &) {
    wait();
    throw;
  }
}

static long pages() {
  long all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

static void many() {
  int odd = 0, even = 0;
  long before = 0;
  for (int number = 0; number < 12000; number++) {
    if (number == 1000) before = pages();
    try {
      handles(number);
    } catch (int) {
      odd++;
    } catch (const std::exception &) {
      even++;
    }
    // Callers that wait in between.
    if (number % 1000 == 0) sched_yield();
  }
  std::printf("%d %d %d\n", odd, even, cleaned);
#if !__has_feature(address_sanitizer)
  // A leak of all frames would be 10 MiB.
  if (pages() - before > 1000) std::printf("%ld pages more\n", pages() - before);
#endif
}

int main() {
  std::thread thread(many);
  thread.join();
  many();
}
