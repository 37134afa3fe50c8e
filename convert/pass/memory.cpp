// The variables that a coroutine must keep in its frame, because a suspended coroutine has lost its
// stack.

#include "coroutine.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace duality {

// A struct that is passed by value is in the caller's part of the stack. The struct becomes a
// variable.
void Coroutine::copyByValueArguments() {
  IRBuilder<> builder(&*function.getEntryBlock().getFirstInsertionPt());
  const DataLayout &layout = function.getParent()->getDataLayout();
  for (Argument &argument : function.args()) {
    Type *type = argument.getParamByValType();
    if (!type) continue;
    Align align = argument.getParamAlign().value_or(layout.getABITypeAlign(type));
    AllocaInst *copy = builder.CreateAlloca(type, nullptr, argument.getName() + ".copy");
    copy->setAlignment(align);
    argument.replaceAllUsesWith(copy);
    builder.CreateMemCpy(copy, align, &argument, align, layout.getTypeAllocSize(type));
  }
}

// AddressSanitizer ends the life of such variables by an interval of the stack: from the last of
// them to the first. In a coroutine they are on the heap, and an interval up to the stack would be
// most of memory. The heap itself sees a use of freed memory.
void Coroutine::dropIntervalsOfAllocas() {
  SmallVector<CallInst *, 4> calls;
  for (Instruction &instruction : instructions(function)) {
    auto *call = dyn_cast<CallInst>(&instruction);
    Function *callee = call ? call->getCalledFunction() : nullptr;
    if (callee && callee->getName() == "__asan_allocas_unpoison") calls.push_back(call);
  }
  for (CallInst *call : calls) call->eraseFromParent();
}

// LLVM does not split coroutines with variables of unknown size. Such variables go to the heap, in
// a list that the frame owns. The end of a scope (stackrestore) frees the variables of the scope.
void Coroutine::lowerDynamicAllocas() {
  SmallVector<AllocaInst *, 4> dynamic;
  SmallVector<IntrinsicInst *, 4> marks;
  for (Instruction &instruction : instructions(function)) {
    if (auto *variable = dyn_cast<AllocaInst>(&instruction)) {
      if (!variable->isStaticAlloca()) dynamic.push_back(variable);
    } else if (auto *intrinsic = dyn_cast<IntrinsicInst>(&instruction)) {
      Intrinsic::ID which = intrinsic->getIntrinsicID();
      if (which == Intrinsic::stacksave || which == Intrinsic::stackrestore)
        marks.push_back(intrinsic);
    }
  }
  if (!dynamic.empty()) {
    arrays = temporary(runtime.pointer(), Align(8), "arrays");
    IRBuilder<> builder(cast<Instruction>(handle)->getNextNode());
    builder.CreateStore(ConstantPointerNull::get(runtime.pointer()), arrays);
  }
  const DataLayout &layout = function.getParent()->getDataLayout();
  for (AllocaInst *variable : dynamic) {
    IRBuilder<> builder(variable);
    Value *count = builder.CreateZExtOrTrunc(variable->getArraySize(), runtime.size());
    Value *size = builder.CreateMul(
        count, builder.getInt64(layout.getTypeAllocSize(variable->getAllocatedType())));
    FunctionCallee allocate = runtime.function("rt_array_allocate", runtime.pointer(),
                                               {runtime.pointer(), runtime.size(), runtime.size()});
    Value *memory =
        builder.CreateCall(allocate, {arrays, size, builder.getInt64(variable->getAlign().value())},
                           variable->getName());
    // The variables live as long as the list.
    for (User *user : make_early_inc_range(variable->users())) {
      if (auto *intrinsic = dyn_cast<IntrinsicInst>(user)) {
        if (intrinsic->isLifetimeStartOrEnd()) intrinsic->eraseFromParent();
      }
    }
    variable->replaceAllUsesWith(memory);
    variable->eraseFromParent();
  }
  for (IntrinsicInst *mark : marks) {
    IRBuilder<> builder(mark);
    if (mark->getIntrinsicID() == Intrinsic::stackrestore) {
      // Without arrays the mark belongs to the loop's stack, and stackrestore must not touch that
      // stack.
      if (arrays)
        builder.CreateCall(runtime.function("rt_array_release", runtime.nothing(),
                                            {runtime.pointer(), runtime.pointer()}),
                           {arrays, mark->getArgOperand(0)});
    } else {
      Value *now = arrays ? static_cast<Value *>(builder.CreateLoad(runtime.pointer(), arrays))
                          : ConstantPointerNull::get(runtime.pointer());
      mark->replaceAllUsesWith(now);
    }
    mark->eraseFromParent();
  }
}

// libc declares the address of errno as constant, so that one call serves a whole function. But a
// thread that calls duality_detach continues on another kernel thread. So each use asks for the
// address again.
void Coroutine::askForErrnoAgain() {
  SmallVector<CallInst *, 8> calls;
  for (Instruction &instruction : instructions(function)) {
    auto *call = dyn_cast<CallInst>(&instruction);
    Function *callee = call ? call->getCalledFunction() : nullptr;
    if (callee &&
        (callee->getName() == "__errno_location" || callee->getName() == "__h_errno_location"))
      calls.push_back(call);
  }
  for (CallInst *call : calls) {
    // Values that come to a phi from one block more than once must be one value.
    DenseMap<BasicBlock *, Value *> of_blocks;
    auto ask = [&](Instruction *before) {
      IRBuilder<> builder(before);
      builder.SetCurrentDebugLocation(call->getDebugLoc());
      return builder.CreateCall(call->getCalledFunction());
    };
    for (Use &use : make_early_inc_range(call->uses())) {
      auto *user = cast<Instruction>(use.getUser());
      auto *phi = dyn_cast<PHINode>(user);
      if (!phi) {
        use.set(ask(user));
        continue;
      }
      Value *&value = of_blocks[phi->getIncomingBlock(use)];
      if (!value) value = ask(phi->getIncomingBlock(use)->getTerminator());
      use.set(value);
    }
    call->eraseFromParent();
  }
}

// A variable of the coroutine itself, beside the variables of the program.
AllocaInst *Coroutine::temporary(Type *type, Align alignment, const Twine &name) {
  IRBuilder<> builder(cast<Instruction>(parent));
  AllocaInst *variable = builder.CreateAlloca(type, nullptr, name);
  variable->setAlignment(alignment);
  return variable;
}

// Ends each variable's life on each way out. Otherwise all variables would be alive together on the
// way out. LLVM could then not give one place in the frame to two variables with separate lives.
void Coroutine::markEndsOfLife() {
  const DataLayout &layout = function.getParent()->getDataLayout();
  SmallVector<AllocaInst *, 16> marked;
  for (Instruction &instruction : function.getEntryBlock()) {
    auto *variable = dyn_cast<AllocaInst>(&instruction);
    if (!variable) continue;
    bool has_marks = any_of(variable->users(), [](User *user) {
      auto *intrinsic = dyn_cast<IntrinsicInst>(user);
      return intrinsic && intrinsic->isLifetimeStartOrEnd();
    });
    if (has_marks) marked.push_back(variable);
  }
  for (BasicBlock *way_out : ways_out) {
    IRBuilder<> builder(way_out->getTerminator());
    for (AllocaInst *variable : marked) {
      builder.CreateLifetimeEnd(
          variable, builder.getInt64(layout.getTypeAllocSize(variable->getAllocatedType())));
    }
  }
}

} // namespace duality
