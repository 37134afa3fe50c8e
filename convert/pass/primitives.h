// The pass's knowledge about functions that the program calls and does not define.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/IR/Function.h"

namespace duality {

enum class Role {
  Waits,   // a primitive: converted code calls the runtime's function, which may return a handle
  Renamed, // does not wait, but must know tasks: the runtime's function takes its place everywhere
  Library, // may block in a way that no runtime can see: called on a side stack
  Spawn,   // pthread_create
  Once,    // pthread_once: calls its second argument
  Asks,    // neither waits nor knows tasks, but a loop that waits may call it again and again
};

struct Primitive {
  llvm::StringRef name;
  Role role;
  llvm::StringRef runtime;  // what converted code calls
  llvm::StringRef original; // what originals call instead; empty: the function itself
  // The functions of _FORTIFY_SOURCE have one more argument: the size of the buffer. The pass
  // checks that size itself. `bound` is the index of that argument (-1 for all other functions).
  // `length` is the index of the argument that must not exceed it, in units of `unit` bytes.
  int bound = -1;
  int length = -1;
  int unit = 1;
};

// The arguments of syscall(SYS_futex, …) that rt_futex takes; see implicit.cpp.
constexpr unsigned FUTEX_ARGUMENTS = 5;

// A library function that calls a function argument before it returns.
struct Callback {
  llvm::StringRef name;
  unsigned argument;   // the index of the function
  unsigned parameters; // how many parameters that function has
};

// The known primitive for `function`, or null. A function that the program defines is never a
// primitive.
const Primitive *primitive(const llvm::Function &function);
// The function arguments that `function` calls.
llvm::SmallVector<Callback, 2> callbacks(const llvm::Function &function);

// Whether the library function keeps its function argument and does not call it (signal, atexit).
bool keepsCallback(const llvm::Function &function);

} // namespace duality
