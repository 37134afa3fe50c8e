// Finds the functions that an exception of C++ may leave.
#pragma once

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"

namespace duality {

class Analysis;

// The function by which landing pads of C++ are found. Null if the program has no such function: it
// is not in C++, or has no exceptions. Then no function counts as throwing.
llvm::Function *cxxPersonality(const llvm::Module &module);
// Whether the landing pads of the function are landing pads of C++.
bool hasCxxPersonality(const llvm::Function &function);

// The functions that may throw, by a fixpoint over the calls.
class Throwing {
public:
  Throwing(llvm::Module &module, const Analysis &analysis);

  // Whether an exception may leave the function, which the program defines. The end of a thread
  // (pthread_exit, cancellation) is an exception too.
  bool leaves(const llvm::Function &function) const { return throwing.contains(&function); }
  // Whether the end of a thread goes through its frames: the program must be in C++, and call
  // pthread_exit or pthread_cancel.
  bool endsThreads() const { return ends_threads; }
  // Whether a call may throw.
  bool mayThrow(const llvm::CallBase &call) const;

private:
  bool is_cxx;
  bool ends_threads;
  llvm::SmallPtrSet<const llvm::Function *, 32> throwing;
};

} // namespace duality
