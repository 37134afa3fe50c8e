// Converts pthread_cleanup_push of C. glibc's macro is
//
// ```text
//   if (__sigsetjmp(buffer)) { routine(argument); __pthread_unwind_next(buffer); }
//   __pthread_register_cancel(buffer); … __pthread_unregister_cancel(buffer);
// ```
//
// and optimisation may have put the routine's code in place of its call. So the handler, which is
// the code after the second return, becomes a function. A record in the frame keeps the values that
// the handler needs. The task has a list of records: the runtime calls their functions if the task
// ends in the middle.

#include "cleanups.h"

#include "analysis.h"
#include "coroutine.h"

#include "llvm/Analysis/ConstantFolding.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;

namespace duality {
namespace {

// The place of the first value in a record: after `next` and `routine`.
constexpr unsigned FIRST_VALUE = 2;

StringRef nameOfCallee(const Instruction &instruction) {
  auto *call = dyn_cast<CallInst>(&instruction);
  const Function *callee = call ? calledFunction(*call) : nullptr;
  return callee && callee->isDeclaration() ? callee->getName() : "";
}

bool registers(const Instruction &instruction) {
  return nameOfCallee(instruction).starts_with("__pthread_register_cancel");
}
bool unregisters(const Instruction &instruction) {
  return nameOfCallee(instruction).starts_with("__pthread_unregister_cancel");
}
bool unwinds(const Instruction &instruction) {
  return nameOfCallee(instruction) == "__pthread_unwind_next";
}

bool isEndOrStartOfLife(const User *user) {
  auto *instruction = dyn_cast<Instruction>(user);
  return instruction && instruction->isLifetimeStartOrEnd();
}

const Value *bufferOf(const CallInst &call) {
  return call.getArgOperand(0)->stripPointerCasts();
}

// A value that the handler computes again, because it belongs to the kernel thread.
bool isOfThread(const Value &value) {
  auto *call = dyn_cast<CallInst>(&value);
  if (!call) return false;
  return call->getIntrinsicID() == Intrinsic::threadlocal_address ||
         nameOfCallee(*call) == "__errno_location";
}

// Follows the second return, which gives 1, to the first branch that depends on it.
bool findHandler(Cleanup &cleanup) {
  DenseMap<Value *, Constant *> known, stored;
  const DataLayout &layout = cleanup.jump->getModule()->getDataLayout();
  known[cleanup.jump] = ConstantInt::get(cleanup.jump->getType(), 1);
  auto constant = [&](Value *value) {
    auto *itself = dyn_cast<Constant>(value);
    return itself ? itself : known.lookup(value);
  };
  BasicBlock *block = cleanup.jump->getParent();
  SmallPtrSet<BasicBlock *, 4> visited;
  Instruction *next = cleanup.jump->getNextNode();
  while (visited.insert(block).second) {
    for (; !next->isTerminator(); next = next->getNextNode()) {
      if (auto *store = dyn_cast<StoreInst>(next)) {
        Constant *value = constant(store->getValueOperand());
        if (!value || !isa<AllocaInst>(store->getPointerOperand())) return false;
        stored[store->getPointerOperand()] = value;
      } else if (auto *read = dyn_cast<LoadInst>(next)) {
        Constant *value = stored.lookup(read->getPointerOperand());
        if (value && value->getType() == read->getType()) known[read] = value;
      } else if (next->mayHaveSideEffects() && !next->isLifetimeStartOrEnd()) {
        return false;
      } else if (!isa<PHINode>(next) && !next->getType()->isVoidTy()) {
        SmallVector<Constant *, 4> operands;
        for (Value *operand : next->operands()) operands.push_back(constant(operand));
        bool all = all_of(operands, [](Constant *operand) { return operand != nullptr; });
        Constant *value = all ? ConstantFoldInstOperands(next, operands, layout) : nullptr;
        if (value) known[next] = value;
      }
    }
    auto *branch = dyn_cast<BranchInst>(next);
    if (!branch) return false;
    if (branch->isConditional()) {
      auto *value = dyn_cast_or_null<ConstantInt>(constant(branch->getCondition()));
      if (!value || branch->getSuccessor(0) == branch->getSuccessor(1)) return false;
      cleanup.branch = branch;
      cleanup.handler = value->isZero() ? 1 : 0;
      for (auto [from, to] : known) cleanup.known.push_back({from, to});
      return true;
    }
    block = branch->getSuccessor(0);
    next = &block->front();
  }
  return false;
}

// Everything that the handler reaches ends in __pthread_unwind_next, or nowhere.
bool findBlocks(Cleanup &cleanup, const DominatorTree &tree) {
  SetVector<BasicBlock *> found;
  found.insert(cleanup.branch->getSuccessor(cleanup.handler));
  for (size_t index = 0; index < found.size(); index++) {
    for (Instruction &instruction : *found[index]) {
      if (isa<ReturnInst>(instruction) || isa<InvokeInst>(instruction) || instruction.isEHPad() ||
          isa<AllocaInst>(instruction) || &instruction == cleanup.jump)
        return false;
    }
    for (BasicBlock *next : successors(found[index])) found.insert(next);
  }
  SetVector<Value *> values;
  for (BasicBlock *block : found) {
    for (Instruction &instruction : *block) {
      auto *phi = dyn_cast<PHINode>(&instruction);
      for (Use &use : instruction.operands()) {
        Value *value = use.get();
        auto *made = dyn_cast<Instruction>(value);
        if ((!made && !isa<Argument>(value)) || (made && found.contains(made->getParent())))
          continue;
        bool is_known =
            any_of(cleanup.known, [&](const auto &pair) { return pair.first == value; });
        if (is_known || instruction.isLifetimeStartOrEnd() || unwinds(instruction)) continue;
        BasicBlock *from = phi ? phi->getIncomingBlock(use) : nullptr;
        if (phi && !found.contains(from) &&
            !(block == found.front() && from == cleanup.branch->getParent()))
          continue;
        if (made && !tree.dominates(made, cleanup.jump)) return false;
        if (value->getType()->isTokenTy()) return false;
        values.insert(value);
      }
    }
  }
  cleanup.blocks.assign(found.begin(), found.end());
  cleanup.values.assign(values.begin(), values.end());
  return true;
}

} // namespace

std::optional<SmallVector<Cleanup, 2>> findCleanups(Function &function) {
  SmallVector<Cleanup, 2> found;
  SmallVector<CallInst *, 2> registrations;
  for (Instruction &instruction : instructions(function)) {
    auto *call = dyn_cast<CallInst>(&instruction);
    if (!call) continue;
    if (registers(*call)) registrations.push_back(call);
    if (!call->hasFnAttr(Attribute::ReturnsTwice)) continue;
    if (!nameOfCallee(*call).starts_with("__sigsetjmp")) return std::nullopt;
    found.emplace_back().jump = call;
  }
  if (found.empty() && registrations.empty()) return found;
  DominatorTree tree(function);
  for (CallInst *registration : registrations) {
    // The nearest before it with the same buffer.
    Cleanup *nearest = nullptr;
    for (Cleanup &cleanup : found) {
      if (bufferOf(*cleanup.jump) != bufferOf(*registration) ||
          !tree.dominates(cleanup.jump, registration))
        continue;
      if (!nearest || tree.dominates(nearest->jump, cleanup.jump)) nearest = &cleanup;
    }
    if (!nearest) return std::nullopt;
    nearest->registrations.push_back(registration);
  }
  for (Cleanup &cleanup : found) {
    if (cleanup.registrations.empty() || !findHandler(cleanup) || !findBlocks(cleanup, tree))
      return std::nullopt;
  }
  return found;
}

// void routine(record): the handler.
Function *Coroutine::cleanupRoutine(const Cleanup &cleanup, StructType *record) {
  LLVMContext &context = function.getContext();
  auto *routine = Function::Create(FunctionType::get(runtime.nothing(), {runtime.pointer()}, false),
                                   GlobalValue::InternalLinkage, original.getName() + ".cleanup",
                                   function.getParent());
  for (StringRef name : {"target-cpu", "target-features", "frame-pointer"}) {
    if (original.hasFnAttribute(name)) routine->addFnAttr(original.getFnAttribute(name));
  }
  auto *entry = BasicBlock::Create(context, "", routine);
  IRBuilder<> builder(entry);
  ValueToValueMapTy map;
  for (auto [value, constant] : cleanup.known) map[value] = constant;
  for (auto [index, value] : enumerate(cleanup.values)) {
    if (isOfThread(*value)) {
      map[value] = builder.Insert(cast<Instruction>(value)->clone());
      continue;
    }
    Value *place = builder.CreateStructGEP(record, routine->getArg(0), FIRST_VALUE + index);
    map[value] = builder.CreateLoad(value->getType(), place);
  }
  map[cleanup.branch->getParent()] = entry;
  SmallVector<BasicBlock *, 4> blocks;
  for (BasicBlock *block : cleanup.blocks) {
    blocks.push_back(CloneBasicBlock(block, map, "", routine));
    map[block] = blocks.back();
  }
  builder.CreateBr(blocks.front());
  SmallPtrSet<BasicBlock *, 8> own(cleanup.blocks.begin(), cleanup.blocks.end());
  for (BasicBlock *block : blocks) {
    for (Instruction &instruction : make_early_inc_range(*block)) {
      instruction.dropDbgRecords();
      instruction.setDebugLoc(DebugLoc());
      if (instruction.isLifetimeStartOrEnd() || instruction.isDebugOrPseudoInst()) {
        instruction.eraseFromParent();
        continue;
      }
      if (auto *phi = dyn_cast<PHINode>(&instruction)) {
        phi->removeIncomingValueIf(
            [&](unsigned index) {
              BasicBlock *from = phi->getIncomingBlock(index);
              bool is_first = block == blocks.front() && from == cleanup.branch->getParent();
              return !own.contains(from) && !is_first;
            },
            false);
      }
      RemapInstruction(&instruction, map, RF_NoModuleLevelChanges | RF_IgnoreMissingLocals);
    }
  }
  for (BasicBlock *block : blocks) {
    auto end = find_if(*block, unwinds);
    if (end == block->end()) continue;
    // The runtime has the next handler.
    while (&block->back() != &*end) block->back().eraseFromParent();
    end->eraseFromParent();
    ReturnInst::Create(context, block);
  }
  return routine;
}

void Coroutine::lowerCleanups() {
  auto found = findCleanups(function);
  if (!found || found->empty()) return;
  Type *ptr = runtime.pointer();
  const DataLayout &layout = function.getParent()->getDataLayout();
  SmallSetVector<AllocaInst *, 2> buffers;
  for (Cleanup &cleanup : *found) {
    auto *buffer = dyn_cast<AllocaInst>(cleanup.jump->getArgOperand(0)->stripPointerCasts());
    if (buffer) buffers.insert(buffer);
    SmallVector<Type *, 6> fields = {ptr, ptr};
    for (Value *value : cleanup.values) fields.push_back(value->getType());
    auto *type = StructType::get(function.getContext(), fields);
    AllocaInst *record = temporary(type, layout.getABITypeAlign(type), "cleanup");
    Function *routine = cleanupRoutine(cleanup, type);
    for (CallInst *registration : cleanup.registrations) {
      IRBuilder<> builder(registration);
      for (auto [index, value] : enumerate(cleanup.values)) {
        if (isOfThread(*value)) continue;
        builder.CreateStore(value, builder.CreateStructGEP(type, record, FIRST_VALUE + index));
      }
      builder.CreateCall(runtime.function("rt_cleanup_push", runtime.nothing(), {ptr, ptr}),
                         {record, routine});
      registration->eraseFromParent();
    }
  }
  for (Cleanup &cleanup : *found) {
    BranchInst *branch = cleanup.branch;
    BasicBlock *block = branch->getParent();
    branch->getSuccessor(cleanup.handler)->removePredecessor(block);
    BranchInst::Create(branch->getSuccessor(1 - cleanup.handler), branch->getIterator());
    branch->eraseFromParent();
    cleanup.jump->replaceAllUsesWith(ConstantInt::get(cleanup.jump->getType(), 0));
    cleanup.jump->eraseFromParent();
  }
  for (Instruction &instruction : make_early_inc_range(instructions(function))) {
    if (!unregisters(instruction)) continue;
    IRBuilder<> builder(&instruction);
    builder.CreateCall(runtime.function("rt_cleanup_pop", runtime.nothing(), {}));
    instruction.eraseFromParent();
  }
  removeUnreachableBlocks(function);
  for (AllocaInst *buffer : buffers) {
    if (!all_of(buffer->users(), isEndOrStartOfLife)) continue;
    while (!buffer->use_empty()) cast<Instruction>(*buffer->user_begin())->eraseFromParent();
    buffer->eraseFromParent();
  }
}

} // namespace duality
