// Finds loops in which a task could go on for ever without a primitive. A kernel thread may spin,
// because others run at the same time. A spinning task would keep its loop from running the task
// that it waits for. So converted code subtracts from `rt_turn` in such a loop, and gives way at
// zero.

#include "coroutine.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace duality {
namespace {

// Without optimisation, `while (!is_set()) relax();` calls functions. The constants limit the depth
// and the size of these functions.
constexpr unsigned DEEPEST = 3, LARGEST = 64;

bool isLocal(const Value *pointer) { return isa<AllocaInst>(getUnderlyingObject(pointer)); }

// Whether the call is assembly by which old programs wait: a pause, or their own lock.
bool isOfWaiting(const CallBase &call) {
  auto *assembly = dyn_cast<InlineAsm>(call.getCalledOperand());
  if (!assembly) return false;
  StringRef text = assembly->getAsmString();
  return text.contains("pause") || text.contains("nop") || text.contains("xchg") ||
         text.contains("lock");
}

// The effects of a loop's instructions, and of the functions that it calls.
struct Deeds {
  bool reads = false;  // a variable that other threads change
  bool asks = false;   // calls functions that need not wait
  bool quiet = true;   // only waits: computes, reads, pauses, asks
  bool stores = false; // writes memory that others may see

  void add(const Instruction &instruction, unsigned depth);
  void addCall(const CallBase &call, unsigned depth);
};

Deeds deedsOf(const Function &function, unsigned depth) {
  Deeds deeds;
  deeds.quiet = depth < DEEPEST && function.getInstructionCount() <= LARGEST;
  if (!deeds.quiet) return deeds;
  for (const Instruction &instruction : instructions(function)) deeds.add(instruction, depth);
  return deeds;
}

void Deeds::add(const Instruction &instruction, unsigned depth) {
  if (auto *load = dyn_cast<LoadInst>(&instruction)) {
    // Without optimisation, other threads do not change a volatile local variable either.
    reads |= (load->isVolatile() || load->isAtomic()) && !isLocal(load->getPointerOperand());
  } else if (isa<AtomicRMWInst>(instruction) || isa<AtomicCmpXchgInst>(instruction)) {
    reads = true;
  } else if (auto *store = dyn_cast<StoreInst>(&instruction)) {
    stores |= !isLocal(store->getPointerOperand());
  } else if (auto *call = dyn_cast<CallBase>(&instruction)) {
    addCall(*call, depth);
  }
}

void Deeds::addCall(const CallBase &call, unsigned depth) {
  reads |= isOfWaiting(call);
  if (isa<IntrinsicInst>(call) || call.isInlineAsm() || call.onlyReadsMemory()) return;
  const Function *callee = calledFunction(call);
  if (!callee) {
    quiet = false;
  } else if (!callee->isDeclaration()) {
    Deeds deeds = deedsOf(*callee, depth + 1);
    reads |= deeds.reads;
    asks |= deeds.asks;
    stores |= deeds.stores;
    quiet &= deeds.quiet;
  } else if (const Primitive *known = primitive(*callee);
             known && (known->role == Role::Asks || known->role == Role::Renamed)) {
    asks = true;
  } else {
    quiet &= callee->getName() == "__errno_location";
  }
}

Deeds deedsOf(const Loop &loop) {
  Deeds deeds;
  for (BasicBlock *block : loop.blocks()) {
    for (Instruction &instruction : *block) deeds.add(instruction, 0);
  }
  return deeds;
}

// Whether the value depends on a variable that another thread changes, inside the loop.
bool isUpToOthers(Value *value, const Loop &loop, SmallPtrSetImpl<Value *> &seen) {
  auto *instruction = dyn_cast<Instruction>(value);
  if (!instruction || !loop.contains(instruction) || !seen.insert(value).second) return false;
  Deeds deeds;
  deeds.add(*instruction, 0);
  if (deeds.reads) return true;
  if (auto *load = dyn_cast<LoadInst>(instruction); load && isLocal(load->getPointerOperand())) {
    // Without optimisation, values are in local variables.
    for (User *user : load->getPointerOperand()->users()) {
      auto *store = dyn_cast<StoreInst>(user);
      if (store && loop.contains(store) && isUpToOthers(store->getValueOperand(), loop, seen))
        return true;
    }
  }
  return any_of(instruction->operands(),
                [&](Use &operand) { return isUpToOthers(operand, loop, seen); });
}

// Whether another thread decides when the loop ends. Then each round is fruitless.
bool isFruitless(const Loop &loop) {
  SmallVector<BasicBlock *, 4> exiting;
  loop.getExitingBlocks(exiting);
  return any_of(exiting, [&](BasicBlock *block) {
    SmallPtrSet<Value *, 16> seen;
    return any_of(block->getTerminator()->operands(),
                  [&](Use &operand) { return isUpToOthers(operand, loop, seen); });
  });
}

// Whether the loop only waits. The loop may count meanwhile, and store values that it has read.
bool isSpinning(const Deeds &deeds, const Loop &loop) {
  return deeds.quiet && (deeds.asks || (deeds.reads && (!deeds.stores || isFruitless(loop))));
}

// The place at which the loop begins again.
SmallVector<Instruction *, 2> ends(const Loop &loop) {
  SmallVector<BasicBlock *, 2> latches;
  loop.getLoopLatches(latches);
  SmallVector<Instruction *, 2> found;
  for (BasicBlock *latch : latches) found.push_back(latch->getTerminator());
  return found;
}

bool isPrimitive(const Instruction &instruction) {
  auto *call = dyn_cast<CallBase>(&instruction);
  const Function *callee = call ? calledFunction(*call) : nullptr;
  const Primitive *known = callee ? primitive(*callee) : nullptr;
  return known && (known->role == Role::Waits || known->role == Role::Library);
}

// Whether there is a primitive in each round that ends here.
bool hasPrimitive(const Loop &loop, const Instruction &end, const DominatorTree &dominators) {
  return any_of(loop.blocks(), [&](BasicBlock *block) {
    return dominators.dominates(block, end.getParent()) && any_of(*block, isPrimitive);
  });
}

} // namespace

SmallVector<Instruction *, 2> spinningLoops(Function &function) {
  SmallVector<Instruction *, 2> found;
  if (function.isDeclaration()) return found;
  Deeds all;
  for (Instruction &instruction : instructions(function)) all.add(instruction, 0);
  if (!all.reads && !all.asks) return found;
  DominatorTree dominators(function);
  LoopInfo loops(dominators);
  for (Loop *loop : loops.getLoopsInPreorder()) {
    if (isSpinning(deedsOf(*loop), *loop)) found.append(ends(*loop));
  }
  return found;
}

// `if ((rt_turn -= cost) <= 0) rt_give_way();` where such a loop begins again. lowerCalls makes
// this call a place to suspend.
void Coroutine::giveWayInSpinningLoops() {
  SmallVector<std::pair<Instruction *, unsigned>, 4> found;
  DominatorTree dominators(function);
  LoopInfo loops(dominators);
  for (Loop *loop : loops.getLoopsInPreorder()) {
    Deeds deeds = deedsOf(*loop);
    if (!deeds.reads && !deeds.asks) continue;
    unsigned cost = isSpinning(deeds, *loop) && isFruitless(*loop) ? FRUITLESS : 1;
    for (Instruction *end : ends(*loop)) {
      if (!hasPrimitive(*loop, *end, dominators)) found.push_back({end, cost});
    }
  }
  for (auto [end, cost] : found) {
    IRBuilder<> builder(end);
    builder.SetCurrentDebugLocation(end->getDebugLoc());
    Value *turn = runtime.local(builder, "rt_turn", runtime.integer());
    Value *left = builder.CreateSub(builder.CreateLoad(runtime.integer(), turn, true),
                                    builder.getInt32(cost));
    builder.CreateStore(left, turn, true);
    Value *over = builder.CreateICmpSLE(left, builder.getInt32(0));
    Instruction *then = SplitBlockAndInsertIfThen(over, end->getIterator(), false);
    IRBuilder<>(then)
        .CreateCall(runtime.function("rt_give_way", runtime.integer(), {}))
        ->setDebugLoc(end->getDebugLoc());
  }
}

} // namespace duality
