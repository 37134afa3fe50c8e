// The body of one coroutine: a clone of a function with a place to suspend at each call that may
// block.
//
// ```text
//   entry:      static variables; id = coro.id; frame = rt_frame_allocate(coro.size);
//               handle = coro.begin; parent = null
//   call site:  r = call {ptr, R} @G.async(...)          or a primitive: the same shape
//               r.handle == null ? go on with r.value : wait
//     wait:     r.handle->parent = handle; coro.suspend
//               -> [suspended: end] [resumed: value = rt_ret] [destroyed: free]
//   return:     if parent: rt_ret = value, rt_next = parent
//               free the frame; end: {null, value}, or {handle, -} when suspended
// ```
//
// exceptions.cpp has the part that C++ adds to a coroutine.
//
// The frame is freed before the parent is resumed, and there is no final suspend, because no code
// reads a coroutine that has returned.
#pragma once

#include "cleanups.h"
#include "converter.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Instructions.h"

namespace duality {

// Ends the first parts of coroutines and the resumed parts differently for exceptions. Comes after
// CoroSplit.
void settleLandingPads(llvm::Module &module);

// The attributes of a function and of its parameters that its coroutine keeps. With `throws`,
// exceptions may leave the function.
llvm::AttributeList attributesOfCoroutine(const llvm::Function &original, bool throws);

class Coroutine {
public:
  Coroutine(Converter &converter, const Analysis &analysis, Runtime &runtime,
            llvm::Function &original, llvm::Function &clone)
      : converter(converter), analysis(analysis), runtime(runtime), original(original),
        function(clone) {}

  void build();

private:
  // coroutine.cpp: the clone, its beginning and its end.
  void clone();
  void begin();
  void end();
  void lowerReturns(llvm::BasicBlock *leave, llvm::PHINode *value);

  // memory.cpp: the variables that a frame must own.
  void copyByValueArguments();
  void dropIntervalsOfAllocas();
  void lowerDynamicAllocas();
  void askForErrnoAgain();
  llvm::AllocaInst *temporary(llvm::Type *type, llvm::Align alignment, const llvm::Twine &name);
  void markEndsOfLife();

  // cleanups.cpp
  void lowerCleanups();
  llvm::Function *cleanupRoutine(const Cleanup &cleanup, llvm::StructType *record);

  // spinning.cpp
  void giveWayInSpinningLoops();

  // await.cpp: calls.
  void lowerCalls();
  bool lowerCall(llvm::CallInst &call);
  llvm::Value *await(llvm::IRBuilder<> &builder, llvm::Value *returned, llvm::Type *result,
                     const llvm::Twine &name);
  llvm::Value *awaitPrimitive(llvm::IRBuilder<> &builder, llvm::CallInst &call,
                              const Primitive &primitive);
  llvm::Value *awaitFunction(llvm::IRBuilder<> &builder, llvm::CallInst &call,
                             llvm::Function &callee);
  llvm::Value *awaitTarget(llvm::IRBuilder<> &builder, llvm::CallInst &call,
                           llvm::Function &target);
  void checkBound(llvm::IRBuilder<> &builder, llvm::CallInst &call, const Primitive &primitive);

  // indirect.cpp
  llvm::Value *awaitIndirect(llvm::IRBuilder<> &builder, llvm::CallInst &call,
                             llvm::ArrayRef<llvm::Function *> targets);
  void awaitNoted(llvm::IRBuilder<> &builder, llvm::CallInst &call, llvm::BasicBlock &join,
                  llvm::function_ref<void(llvm::Value *)> answer);

  // side_stack.cpp
  llvm::Value *awaitOnSideStack(llvm::IRBuilder<> &builder, llvm::CallInst &call,
                                llvm::Value *callee, const llvm::Twine &what,
                                const std::string &why);
  llvm::Function *sideThunk(llvm::CallInst &call, llvm::StructType *pack,
                            llvm::Value *constant_callee);

  // exceptions.cpp
  void catchAll();
  void leaveWith(llvm::IRBuilder<> &builder, llvm::Value *value, bool brought);
  llvm::CallInst *callOf(llvm::InvokeInst &invoke);
  void protect();
  void throwAgain(llvm::IRBuilder<> &builder, llvm::Value *held);
  void throwWhatWasThrown(llvm::IRBuilder<> &builder);
  void throwWhatWasHeld(llvm::IRBuilder<> &builder, llvm::Value *place);
  void hold(llvm::CallInst &call, llvm::StructType *pack);
  llvm::BasicBlock *leaveByException(llvm::function_ref<void(llvm::IRBuilder<> &)> free_frame);

  // varargs.cpp
  llvm::Value *packVariableArguments(llvm::IRBuilder<> &builder, llvm::CallInst &call,
                                     unsigned fixed,
                                     llvm::SmallVectorImpl<llvm::AllocaInst *> &temporaries);
  void lowerVaStart();

  llvm::Value *convert(llvm::IRBuilder<> &builder, llvm::Value *value, llvm::Type *type);

  Converter &converter;
  const Analysis &analysis;
  Runtime &runtime;
  llvm::Function &original;
  llvm::Function &function;
  llvm::Value *handle = nullptr;
  llvm::Instruction *id = nullptr;
  llvm::AllocaInst *parent = nullptr;
  llvm::AllocaInst *arrays = nullptr; // the list of variable-length arrays, if there are any
  llvm::Argument *variable_arguments = nullptr;
  llvm::BasicBlock *suspended = nullptr; // the way out of a suspended coroutine
  llvm::BasicBlock *destroyed = nullptr; // frees the frame of a task that ends in the middle
  llvm::SmallVector<llvm::BasicBlock *, 8>
      ways_out; // one for each await, on the way to `destroyed`

  // The part of C++. All fields are null if no exception can leave the coroutine or come to it.
  llvm::BasicBlock *thrown = nullptr; // the landing pad of calls for which the program has none
  llvm::BasicBlock *raise = nullptr;  // where `exception` leaves the coroutine
  llvm::PHINode *exception = nullptr;
  // Whether the unwinder has brought `exception` here, and may take it further.
  llvm::PHINode *in_flight = nullptr;
  // State of the call that is being lowered: the block for its exceptions, and the values of the
  // program's phis in that block. The last field has the calls that replace this call and may
  // throw.
  llvm::BasicBlock *unwind = nullptr;
  llvm::SmallVector<std::pair<llvm::PHINode *, llvm::Value *>, 4> incoming;
  llvm::SmallVector<llvm::CallInst *, 4> may_throw;
  bool lowered_may_throw = false;
};

} // namespace duality
