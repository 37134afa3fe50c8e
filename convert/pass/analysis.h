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
    Library,   // a library function that may block: on a side stack
    Callback, // a library function that calls a function of the program which may block: as Library
  };
  Kind kind = Plain;
  llvm::Function *callee = nullptr;
  const duality::Primitive *primitive = nullptr;
  llvm::SmallVector<llvm::Function *, 4> targets; // of Indirect and Callback: those that may block
};

// Why a function may block: one call in it, and what that call leads to. Or a loop that spins,
// which leads nowhere.
struct Reason {
  llvm::Instruction *site = nullptr;
  Call::Kind kind = Call::Plain;
  llvm::Function *leads_to = nullptr;
};

class Analysis {
public:
  // `once` stands for pthread_once (see once.h).
  Analysis(llvm::Module &module, llvm::Function *once);

  // Whether the function may block: one of the program's, or one that the program only declares.
  bool blocks(const llvm::Function &function) const;
  // The functions of the program that may block, in the order of discovery: the shortest chains
  // first.
  const llvm::MapVector<llvm::Function *, Reason> &blocking() const { return reasons; }
  Call classify(const llvm::CallBase &call) const;
  // The reason why the function cannot become a coroutine, with the place. Empty if it can.
  const std::string &obstacle(const llvm::Function &function) const;
  // Functions that a thread may start with, where the argument of pthread_create is not constant.
  llvm::SmallVector<llvm::Function *, 4> starts() const;
  // Stands for pthread_once in converted code; null where the program does not call it.
  llvm::Function *once() const { return once_function; }
  const Throwing &throwing() const { return *may_throw; }

private:
  void findAddressTaken();
  void findSlots();
  bool isAt(const llvm::Function &function, int64_t slot) const;
  void spread();
  // The primitive that this very call is, though its callee is none; see implicit.cpp.
  const Primitive *implicit(const llvm::CallBase &call, const llvm::Function &callee) const;
  bool initialiserBlocks(const llvm::CallBase &acquire) const;
  void findBlockingInitialisers();
  std::string findObstacle(const llvm::Function &function) const;
  const llvm::SmallVector<llvm::Function *, 4> &candidates(const llvm::CallBase &call) const;
  llvm::SmallVector<llvm::Function *, 4> given(const llvm::CallBase &call,
                                               const llvm::Function &callee) const;

  llvm::Module &module;
  llvm::SmallVector<llvm::Function *, 32> address_taken;
  // C++: functions that are called by tables of virtual functions alone, and their places there.
  llvm::DenseMap<const llvm::Function *, llvm::SmallVector<int64_t, 2>> slots;
  llvm::MapVector<llvm::Function *, Reason> reasons;
  // C++: the guards of static variables with initialisers that may block.
  llvm::SmallPtrSet<const llvm::Value *, 8> awaited_guards;
  llvm::Function *once_function;
  bool is_cxx;
  std::optional<Throwing> may_throw;
  // Answers that were given: each call asks about the same functions.
  mutable llvm::DenseMap<const llvm::Function *, std::string> obstacles;
  mutable llvm::DenseMap<std::pair<llvm::FunctionType *, int64_t>,
                         llvm::SmallVector<llvm::Function *, 4>>
      known_candidates;
};

// A use of a function that does not let it be called from elsewhere.
bool isHarmless(const llvm::Use &use);
// The place in a table of virtual functions that the call loads its callee from. It is ANY_SLOT for
// a call that may be anything, and NO_SLOT for one that is no virtual call.
constexpr int64_t ANY_SLOT = -1, NO_SLOT = -2;
int64_t slotOf(const llvm::CallBase &call);
// Whether arguments and result of the call use the same registers as those of the function.
bool fits(const llvm::CallBase &call, const llvm::Function &function);
// Loops that do nothing but wait for another thread. They read a volatile or atomic variable, or
// call functions that need not wait. The result has the last instruction of each, where it begins
// again.
llvm::SmallVector<llvm::Instruction *, 2> spinningLoops(llvm::Function &function);
// The function that a call names, through aliases and casts; null for a call by a pointer.
llvm::Function *calledFunction(const llvm::CallBase &call);
// Names local variables as the program does, from its debugging information: lld drops names when
// it reads bitcode.
void nameVariables(llvm::Function &function);
// The name as the source has it: demangled for C++.
std::string shown(llvm::StringRef name);
// "file.c:12", or "?" where the object has no line numbers.
std::string place(const llvm::Instruction &instruction);
std::string place(const llvm::Function &function);

} // namespace duality
