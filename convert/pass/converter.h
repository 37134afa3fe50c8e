// The conversion of a module: the functions that become coroutines, and the treatment of all
// others.
#pragma once

#include "analysis.h"
#include "runtime.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallVector.h"

#include <string>
#include <utility>
#include <vector>

namespace duality {

// A call that runs on a side stack, and the reason.
struct SideCall {
  std::string where; // file and line
  std::string what;  // the function that is called
  std::string why;
};

class Converter {
public:
  Converter(llvm::Module &module, Analysis &analysis);

  // Whether threads of the program run on the engine: such threads can be converted, or wait on
  // stacks. A program without such threads stays as it is.
  bool needsEngine() const { return !starts.empty() || has_stacks; }
  // Converts the functions that tasks may run. Originals stay as they are.
  void makeCoroutines();
  // Makes the originals start tasks, and know of them.
  void rewriteOriginals();

  // The coroutine of a function that may block and has no obstacle.
  llvm::Function *coroutineOf(llvm::Function &function);
  // The coroutines, with their original functions.
  const llvm::MapVector<llvm::Function *, llvm::Function *> &coroutines() const { return made; }
  const std::vector<SideCall> &sideCalls() const { return side_calls; }
  // Start routines that stay pthreads, and the reasons.
  const std::vector<SideCall> &pthreads() const { return kept; }

  // Notes a side call. Coroutines call this function while their bodies are made.
  void callAside(SideCall call) { side_calls.push_back(std::move(call)); }
  // Puts the note in front of a function that may block; see indirect.cpp.
  void note(llvm::Function &target, bool alike);
  // Calls functions of the type of a call by their addresses; see indirect.cpp.
  llvm::Function *dispatcher(const llvm::CallInst &call);
  // The placeholder of the table until all coroutines are known.
  llvm::Value *table();

private:
  void findStarts();
  llvm::SmallSetVector<llvm::Function *, 32> reach(llvm::Function &start, bool coroutines) const;
  std::string lifeAside(llvm::Function &start) const;
  void rewriteSpawns();
  void renameFunctions();
  void makeTable();

  llvm::Value *startRoutine(llvm::IRBuilder<> &builder, llvm::Value *start);
  llvm::Constant *program();

  llvm::Module &module;
  Analysis &analysis;
  Runtime runtime;
  llvm::MapVector<llvm::Function *, llvm::Function *> made;
  llvm::SmallVector<llvm::Function *, 16> pending;
  llvm::SmallVector<llvm::Function *, 8> starts; // routines that become coroutines
  bool has_stacks = false;                       // some threads wait on their own stacks
  llvm::SmallPtrSet<llvm::Function *, 16> is_coroutine;
  std::vector<SideCall> side_calls;
  std::vector<SideCall> kept;
  // See indirect.cpp.
  llvm::SmallVector<llvm::Function *, 16> noted;
  llvm::DenseMap<std::pair<llvm::FunctionType *, void *>, llvm::Function *> dispatchers;
  llvm::GlobalVariable *table_variable = nullptr;
  llvm::SmallPtrSet<llvm::Function *, 16> noted_without_coroutine;
  llvm::GlobalVariable *program_variable = nullptr;
};

// Whether the program reads the flags of floating-point exceptions.
bool readsFloatingFlags(llvm::Module &module);
// Whether the program asks for the processor time of threads.
bool readsThreadTimes(llvm::Module &module);

// Moves the program's thread-local variables into one block for each thread or task. Describes the
// block in `program`.
void moveLocals(llvm::Module &module, Runtime &runtime, llvm::GlobalVariable &program);

} // namespace duality
