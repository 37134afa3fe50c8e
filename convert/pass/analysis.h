// Finds the functions that may block, the reasons, and the functions that can become coroutines.
#pragma once

#include "primitives.h"
#include "throwing.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/InstrTypes.h"
#include "llvm/IR/Module.h"

#include <optional>
#include <string>

namespace duality {

// The kind of a call for the transformation.
struct Call {
  enum Kind {
    Plain,     // does not block
    Primitive, // the runtime's function
    Direct,    // a function of the program that may block
    Indirect,  // by a pointer, which may lead to one of `targets`
    Library,   // a library function that may block; runs on a side stack
    Callback, // a library function that calls a blocking function of the program; as Library
  };
  Kind kind = Plain;
  llvm::Function *callee = nullptr;
  const duality::Primitive *primitive = nullptr;
  llvm::SmallVector<llvm::Function *, 4> targets; // of Indirect, Callback: callees that may block
};

// The reason why a function may block: one call in it, and the function that the call leads to. The
// reason may also be a loop that spins, which leads to no function.
struct Reason {
  llvm::Instruction *site = nullptr;
  Call::Kind kind = Call::Plain;
  llvm::Function *leads_to = nullptr;
};

class Analysis {
public:
  // `once` replaces pthread_once (see once.h).
  Analysis(llvm::Module &module, llvm::Function *once);

  // Whether the function may block. The program defines or only declares the function.
  bool blocks(const llvm::Function &function) const;
  // The functions of the program that may block, in the order of discovery: shortest chains first.
  const llvm::MapVector<llvm::Function *, Reason> &blocking() const { return reasons; }
  Call classify(const llvm::CallBase &call) const;
  // The reason why the function cannot become a coroutine, with the place. Empty if it can.
  const std::string &obstacle(const llvm::Function &function) const;
  // The functions that a thread may start with, if the argument of pthread_create is not constant.
  llvm::SmallVector<llvm::Function *, 4> starts() const;
  // The replacement of pthread_once in converted code. Null if the program does not call
  // pthread_once.
  llvm::Function *once() const { return once_function; }
  const Throwing &throwing() const { return *may_throw; }

private:
  void findAddressTaken();
  void findSlots();
  bool isAt(const llvm::Function &function, int64_t slot) const;
  void spread();
  // The primitive that this call stands for, although its callee is no primitive; see implicit.cpp.
  const Primitive *implicit(const llvm::CallBase &call, const llvm::Function &callee) const;
  bool initialiserBlocks(const llvm::CallBase &acquire) const;
  void findBlockingInitialisers();
  std::string findObstacle(const llvm::Function &function) const;
  const llvm::SmallVector<llvm::Function *, 4> &candidates(const llvm::CallBase &call) const;
  llvm::SmallVector<llvm::Function *, 4> given(const llvm::CallBase &call,
                                               const llvm::Function &callee) const;

  llvm::Module &module;
  llvm::SmallVector<llvm::Function *, 32> address_taken;
  // C++: functions that are called only by tables of virtual functions, and their places in the
  // tables.
  llvm::DenseMap<const llvm::Function *, llvm::SmallVector<int64_t, 2>> slots;
  llvm::MapVector<llvm::Function *, Reason> reasons;
  // C++: the guards of static variables with initialisers that may block.
  llvm::SmallPtrSet<const llvm::Value *, 8> awaited_guards;
  llvm::Function *once_function;
  bool is_cxx;
  std::optional<Throwing> may_throw;
  // A cache of earlier answers: each call asks about the same functions.
  mutable llvm::DenseMap<const llvm::Function *, std::string> obstacles;
  mutable llvm::DenseMap<std::pair<llvm::FunctionType *, int64_t>,
                         llvm::SmallVector<llvm::Function *, 4>>
      known_candidates;
};

// Whether a use of a function does not let other code call it.
bool isHarmless(const llvm::Use &use);
// The place in a table of virtual functions from which the call loads its callee. ANY_SLOT if the
// call may be of any kind, and NO_SLOT if the call is not virtual.
constexpr int64_t ANY_SLOT = -1, NO_SLOT = -2;
int64_t slotOf(const llvm::CallBase &call);
// Whether arguments and result of the call use the same registers as arguments and result of the
// function.
bool fits(const llvm::CallBase &call, const llvm::Function &function);
// Loops that only wait for another thread. Such a loop reads a volatile or atomic variable, or
// calls functions that need not wait. The result has the last instruction of each loop, at which
// the loop begins again.
llvm::SmallVector<llvm::Instruction *, 2> spinningLoops(llvm::Function &function);
// The function that a call names, through aliases and casts; null for a call by a pointer.
llvm::Function *calledFunction(const llvm::CallBase &call);
// Names local variables as the program does, from its debugging information: lld drops names when
// it reads bitcode.
void nameVariables(llvm::Function &function);
// The name as the source has it: demangled for C++.
std::string shown(llvm::StringRef name);
// "file.c:12", or "?" if the object has no line numbers.
std::string place(const llvm::Instruction &instruction);
std::string place(const llvm::Function &function);

} // namespace duality
