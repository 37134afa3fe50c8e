// What the test programs in C++ share: a check that names its line, and a wait.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <sched.h>

#define CHECK(what) check(what, #what, __LINE__)
static void check(bool holds, const char *what, int line) {
  if (holds) return;
  std::printf("line %d: not so: %s\n", line, what);
  std::exit(1);
}

__attribute__((noinline)) static void wait() { sched_yield(); }
