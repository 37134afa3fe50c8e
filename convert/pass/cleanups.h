// pthread_cleanup_push in C: a hidden __sigsetjmp, and a handler that its second return runs.
#pragma once

#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Function.h"
#include "llvm/IR/Instructions.h"

#include <optional>

namespace duality {

// One pthread_cleanup_push: where its handler begins, and what the handler needs from outside.
struct Cleanup {
  llvm::CallInst *jump = nullptr;
  llvm::SmallVector<llvm::CallInst *, 1> registrations;
  // The branch that leads to the handler after the second return, and its successor.
  llvm::BranchInst *branch = nullptr;
  unsigned handler = 0;
  // Values that the second return gives.
  llvm::SmallVector<std::pair<llvm::Value *, llvm::Constant *>, 4> known;
  // The handler's blocks, in order, and the values from outside.
  llvm::SmallVector<llvm::BasicBlock *, 4> blocks;
  llvm::SmallVector<llvm::Value *, 4> values;
};

// All of the function. Nothing if one is of a shape that the pass does not know, or if the function
// calls another function that returns twice.
std::optional<llvm::SmallVector<Cleanup, 2>> findCleanups(llvm::Function &function);

} // namespace duality
