// What a throw costs that is caught ten frames up: natively and converted.
//
//     clang++-19 -O2 -pthread scripts/throw.cc -o throw && ./throw
//     duality c++ -O2 -pthread scripts/throw.cc -o throw-cc && ./throw-cc
//
// Three lines: the frames have nothing to clean up; each has a destructor; each has waited before.
// A line has the microseconds of processor time for a throw, beyond those of ten calls that return:
// the least of nine rounds for each.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <thread>

#include <sched.h>

enum Kind { PLAIN, CLEANS, WAITED };

static volatile int cleaned;
struct Cleans {
  ~Cleans() { cleaned = cleaned + 1; }
};

template <Kind KIND> __attribute__((noinline)) static int below(int depth, bool throws) {
  if (depth == 0) {
    if (KIND == WAITED || cleaned == -1) sched_yield();
    if (throws) throw depth;
    return 0;
  }
  int found = 0;
  if (KIND == CLEANS) {
    Cleans here;
    found = below<KIND>(depth - 1, throws);
  } else {
    found = below<KIND>(depth - 1, throws);
  }
  // No loop can be made of these calls.
  if (cleaned == -2) sched_yield();
  return found + 1;
}

// Of the process, so that it is the same natively and converted. No other thread runs meanwhile.
static double now() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

template <Kind KIND> static double cost(bool throws) {
  const int count = 2000;
  double least = 1e9;
  for (int round = 0; round < 9; round++) {
    double begin = now();
    for (int index = 0; index < count; index++) {
      try {
        below<KIND>(10, throws);
      } catch (int) {
      }
    }
    least = std::min(least, (now() - begin) / count);
  }
  return least;
}

template <Kind KIND> static void tell(const char *what) {
  std::thread([what] {
    std::printf("%s: %.2f us\n", what, cost<KIND>(true) - cost<KIND>(false));
  }).join();
}

int main() {
  tell<PLAIN>("nothing to clean up");
  tell<CLEANS>("destructors");
  tell<WAITED>("after a wait");
}
