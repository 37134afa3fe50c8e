// Finds loops that spin. A thread may wait in this way, since another thread runs at the same time;
// a task would keep the loop from running the task that it waits for. So converted code looks at
// `rt_turn_over` there, and gives way.

#include "analysis.h"

#include "llvm/Analysis/LoopInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace duality {
namespace {

bool readsWhatOthersChange(const Instruction &instruction) {
  if (auto *load = dyn_cast<LoadInst>(&instruction)) {
    // Without optimisation, a volatile local variable is none of the others' either.
    return (load->isVolatile() || load->isAtomic()) && !isa<AllocaInst>(load->getPointerOperand());
  }
  return isa<AtomicRMWInst>(instruction) || isa<AtomicCmpXchgInst>(instruction);
}

// What a loop that only waits may do: compute, write local variables, pause.
bool isQuiet(const Instruction &instruction) {
  if (auto *store = dyn_cast<StoreInst>(&instruction)) return isa<AllocaInst>(store->getPointerOperand());
  if (auto *call = dyn_cast<CallBase>(&instruction)) return isa<IntrinsicInst>(call) || call->isInlineAsm();
  return true;
}

} // namespace

SmallVector<Instruction *, 2> spinningLoops(Function &function) {
  SmallVector<Instruction *, 2> found;
  if (function.isDeclaration() || none_of(instructions(function), readsWhatOthersChange)) return found;
  DominatorTree dominators(function);
  LoopInfo loops(dominators);
  for (Loop *loop : loops.getLoopsInPreorder()) {
    bool reads = false, quiet = true;
    for (BasicBlock *block : loop->blocks()) {
      for (Instruction &instruction : *block) {
        reads |= readsWhatOthersChange(instruction);
        quiet &= isQuiet(instruction);
      }
    }
    if (!reads || !quiet) continue;
    SmallVector<BasicBlock *, 2> latches;
    loop->getLoopLatches(latches);
    for (BasicBlock *latch : latches) found.push_back(latch->getTerminator());
  }
  return found;
}

} // namespace duality
