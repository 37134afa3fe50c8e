// The fixpoint: a function that calls a function that may throw may throw, unless it is declared as
// not throwing.
//
// Catches do not count. A function that catches some exceptions lets others pass, and wrongly
// counting a function as throwing costs little.

#include "throwing.h"

#include "analysis.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace duality {
namespace {

constexpr const char *PERSONALITY = "__gxx_personality_v0";

} // namespace

Function *cxxPersonality(const Module &module) { return module.getFunction(PERSONALITY); }

bool hasCxxPersonality(const Function &function) {
  return function.hasPersonalityFn() &&
         function.getPersonalityFn()->stripPointerCasts()->getName() == PERSONALITY;
}

Throwing::Throwing(Module &module, const Analysis &analysis)
    : is_cxx(cxxPersonality(module) != nullptr),
      ends_threads(is_cxx &&
                   (module.getFunction("pthread_exit") || module.getFunction("pthread_cancel"))) {
  if (!is_cxx) return;
  DenseMap<const Function *, SmallVector<const Function *, 4>> callers;
  SmallVector<const Function *, 16> pending;
  auto add = [&](const Function *function) {
    if (throwing.insert(function).second) pending.push_back(function);
  };
  for (const Function &function : module) {
    // A function that is declared as not throwing lets the end of a thread pass, if the function
    // waits.
    if (function.doesNotThrow() && !(ends_threads && analysis.blocks(function))) continue;
    for (const Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      if (!call) continue;
      const Function *callee = calledFunction(*call);
      if (callee && !callee->isDeclaration()) callers[callee].push_back(&function);
      else if (mayThrow(*call)) add(&function);
    }
  }
  while (!pending.empty()) {
    for (const Function *caller : callers[pending.pop_back_val()]) add(caller);
  }
}

bool Throwing::mayThrow(const CallBase &call) const {
  if (!is_cxx || isa<IntrinsicInst>(call) || call.isInlineAsm()) return false;
  const Function *callee = calledFunction(call);
  if (callee && !callee->isDeclaration()) return leaves(*callee);
  // The runtime's own functions do not throw, except for functions that the pass itself handles.
  if (callee && callee->getName().starts_with("rt_")) return false;
  const Primitive *known = callee ? primitive(*callee) : nullptr;
  if (!known) return !call.doesNotThrow();
  if (known->role == Role::Waits) return ends_threads;
  if (known->role == Role::Library) return ends_threads || !call.doesNotThrow();
  if (known->role == Role::Once) return true;
  return false;
}

} // namespace duality
