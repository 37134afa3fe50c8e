// Exceptions of C++ in a coroutine.
//
// In its first part, a coroutine has its caller on the stack, and an exception goes to the caller
// as usual. The search for a handler passes over the coroutine, which only frees its frame. A
// coroutine that was resumed has the trampoline below it. So the coroutine catches an exception
// that would leave it, and passes it to the parent by `rt_thrown`:
//
// ```text
//   a call that may throw      an invoke. Where the program has no landing pad, it unwinds to
//                              `thrown`
//   each landing pad           in the first part, cleans up
//                              in resumed parts, catches all: the search ends in this frame
//   resume                     goes to `raise`
//
//   raise:     free the frame
//              parent != null ?  rt_thrown = exception, rt_next = parent, end
//              in flight ?       resume: the unwinder goes on to the caller
//                        :       rt_rethrow(exception): a call on a side stack has thrown it
//   resumed:   rt_thrown ?       rt_thrown = null, then as if the awaited call had thrown it here
// ```
//
// CoroSplit does not know these exceptions. The pass lowers an invoke that waits like a call.
// Afterwards the calls that replace the invoke become invokes with its landing pad (`protect`).
// Both parts come from one body, so landing pads catch a type that stands for all exceptions
// (`ANY`). After CoroSplit, `settleLandingPads` makes them clean up or catch all.
//
// A call on a side stack leaves its exception in its pack. If the thread ends in the call
// (pthread_exit, cancellation), glibc unwinds the side stack by force. The unwinding goes on to the
// bottom of that stack, and the runtime handles it there.

#include "coroutine.h"

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;

namespace duality {
namespace {

LandingPadInst *landingPad(IRBuilder<> &builder, Runtime &runtime) {
  return builder.CreateLandingPad(StructType::get(runtime.pointer(), runtime.integer()), 1);
}

constexpr const char *ANY = "duality.any.exception";

Constant *all(LLVMContext &context) {
  return ConstantPointerNull::get(PointerType::getUnqual(context));
}

bool catches(const LandingPadInst &pad, const Constant *type) {
  for (unsigned index = 0; index < pad.getNumClauses(); index++) {
    if (pad.isCatch(index) && pad.getClause(index) == type) return true;
  }
  return false;
}

void catchAnyIn(LandingPadInst &pad) {
  if (catches(pad, all(pad.getContext()))) return;
  Module *module = pad.getModule();
  pad.addClause(module->getOrInsertGlobal(ANY, Type::getInt8Ty(pad.getContext())));
}

// Replaces `any` by a clean-up, or by a null pointer, which catches all.
void settle(LandingPadInst &pad, const Constant *any, bool cleans) {
  auto *settled = LandingPadInst::Create(pad.getType(), pad.getNumClauses(), "", pad.getIterator());
  settled->setDebugLoc(pad.getDebugLoc());
  settled->setCleanup(pad.isCleanup() || cleans);
  for (unsigned index = 0; index < pad.getNumClauses(); index++) {
    Constant *clause = pad.getClause(index);
    if (clause != any) settled->addClause(clause);
    else if (!cleans) settled->addClause(all(pad.getContext()));
  }
  settled->takeName(&pad);
  pad.replaceAllUsesWith(settled);
  pad.eraseFromParent();
}

} // namespace

// Makes `thrown` and `raise`, and leads landing pads and `resume` to them.
void Coroutine::catchAll() {
  Function *personality = cxxPersonality(*function.getParent());
  if (!personality) return;
  if (!analysis.throwing().leaves(original) && !function.hasPersonalityFn()) return;
  LLVMContext &context = function.getContext();
  if (!function.hasPersonalityFn()) function.setPersonalityFn(personality);
  SmallVector<ResumeInst *, 4> resumes;
  for (Instruction &instruction : instructions(function)) {
    if (auto *resume = dyn_cast<ResumeInst>(&instruction)) resumes.push_back(resume);
    if (auto *pad = dyn_cast<LandingPadInst>(&instruction)) catchAnyIn(*pad);
  }
  thrown = BasicBlock::Create(context, "thrown", &function);
  raise = BasicBlock::Create(context, "raise", &function);
  IRBuilder<> builder(thrown);
  if (DISubprogram *program = function.getSubprogram())
    builder.SetCurrentDebugLocation(DILocation::get(context, program->getLine(), 0, program));
  LandingPadInst *pad = landingPad(builder, runtime);
  catchAnyIn(*pad);
  Value *caught = builder.CreateExtractValue(pad, 0);
  builder.SetInsertPoint(raise);
  exception = builder.CreatePHI(runtime.pointer(), 4, "exception");
  in_flight = builder.CreatePHI(builder.getInt1Ty(), 4, "in.flight");
  builder.SetInsertPoint(thrown);
  leaveWith(builder, caught, true);
  for (ResumeInst *resume : resumes) {
    builder.SetInsertPoint(resume);
    leaveWith(builder, builder.CreateExtractValue(resume->getValue(), 0), true);
    resume->eraseFromParent();
  }
}

void Coroutine::leaveWith(IRBuilder<> &builder, Value *value, bool brought) {
  exception->addIncoming(value, builder.GetInsertBlock());
  in_flight->addIncoming(builder.getInt1(brought), builder.GetInsertBlock());
  builder.CreateBr(raise);
}

// Makes a call in place of an invoke that waits.
CallInst *Coroutine::callOf(InvokeInst &invoke) {
  BasicBlock *from = invoke.getParent();
  unwind = invoke.getUnwindDest();
  for (PHINode &phi : unwind->phis())
    incoming.push_back({&phi, phi.getIncomingValueForBlock(from)});
  CallInst *call = createCallMatchingInvoke(&invoke);
  call->insertBefore(&invoke);
  call->takeName(&invoke);
  invoke.replaceAllUsesWith(call);
  unwind->removePredecessor(from, true);
  BranchInst::Create(invoke.getNormalDest(), invoke.getIterator());
  invoke.eraseFromParent();
  return call;
}

// Gives the calls that replace a call of the program the unwind destination of that call.
void Coroutine::protect() {
  for (CallInst *call : may_throw) {
    BasicBlock *from = call->getParent();
    changeToInvokeAndSplitBasicBlock(call, unwind);
    for (auto &[phi, value] : incoming) phi->addIncoming(value, from);
  }
  may_throw.clear();
  incoming.clear();
  unwind = nullptr;
}

// Throws `held` at the place of the call that is being lowered. Leaves no way to go on.
void Coroutine::throwAgain(IRBuilder<> &builder, Value *held) {
  if (unwind == thrown) {
    // No code in this function catches the exception.
    leaveWith(builder, held, false);
    return;
  }
  FunctionCallee again =
      runtime.function("rt_rethrow", runtime.nothing(), {runtime.pointer()});
  CallInst *call = builder.CreateCall(again, {held});
  call->setDoesNotReturn();
  may_throw.push_back(call);
  builder.CreateUnreachable();
}

// Comes where a coroutine is resumed. Throws the exception that its callee has thrown.
void Coroutine::throwWhatWasThrown(IRBuilder<> &builder) {
  if (!lowered_may_throw) return;
  LLVMContext &context = function.getContext();
  BasicBlock *next = builder.GetInsertBlock()->getNextNode();
  auto *again = BasicBlock::Create(context, "threw", &function, next);
  auto *none = BasicBlock::Create(context, "threw.not", &function, next);
  auto place = [&] { return runtime.local(builder, "rt_thrown", runtime.pointer()); };
  Value *held = builder.CreateLoad(runtime.pointer(), place());
  builder.CreateCondBr(builder.CreateIsNull(held), none, again);
  builder.SetInsertPoint(again);
  builder.CreateStore(ConstantPointerNull::get(runtime.pointer()), place());
  throwAgain(builder, held);
  builder.SetInsertPoint(none);
}

// Comes after a call on a side stack. Throws the exception that the call has left at `place`.
void Coroutine::throwWhatWasHeld(IRBuilder<> &builder, Value *place) {
  LLVMContext &context = function.getContext();
  BasicBlock *next = builder.GetInsertBlock()->getNextNode();
  auto *again = BasicBlock::Create(context, "side.threw", &function, next);
  auto *none = BasicBlock::Create(context, "side.threw.not", &function, next);
  Value *held = builder.CreateLoad(runtime.pointer(), place);
  builder.CreateCondBr(builder.CreateIsNull(held), none, again);
  builder.SetInsertPoint(again);
  throwAgain(builder, held);
  builder.SetInsertPoint(none);
}

// In a thunk, stores the exception of the call in the last field of the pack.
void Coroutine::hold(CallInst &call, StructType *pack) {
  LLVMContext &context = function.getContext();
  Function *thunk = call.getFunction();
  thunk->setPersonalityFn(cxxPersonality(*function.getParent()));
  auto *caught = BasicBlock::Create(context, "caught", thunk);
  auto *keep = BasicBlock::Create(context, "keep", thunk);
  auto *pass = BasicBlock::Create(context, "pass", thunk);
  IRBuilder<> builder(caught);
  LandingPadInst *pad = landingPad(builder, runtime);
  pad->addClause(all(context));
  Value *held = builder.CreateExtractValue(pad, 0);
  // The class of a forced unwinding is zero.
  Value *kind = builder.CreateLoad(runtime.size(), held);
  builder.CreateCondBr(builder.CreateIsNull(kind), pass, keep);
  builder.SetInsertPoint(pass);
  // Not `resume`, which LLVM takes for unreachable behind a landing pad that catches all.
  FunctionCallee go_on =
      runtime.function("_Unwind_Resume", runtime.nothing(), {runtime.pointer()});
  builder.CreateCall(go_on, {held})->setDoesNotReturn();
  builder.CreateUnreachable();
  builder.SetInsertPoint(keep);
  builder.CreateStore(
      held, builder.CreateStructGEP(pack, thunk->getArg(0), pack->getNumElements() - 1));
  builder.CreateRetVoid();
  changeToInvokeAndSplitBasicBlock(&call, caught);
}

// Emits `raise`. Returns the block that goes to the parent, or null if the coroutine throws
// nothing.
BasicBlock *
Coroutine::leaveByException(function_ref<void(IRBuilder<> &)> free_frame) {
  if (!raise) return nullptr;
  LLVMContext &context = function.getContext();
  auto *to_parent = BasicBlock::Create(context, "to.parent", &function);
  auto *to_caller = BasicBlock::Create(context, "to.caller", &function);
  auto *go_on = BasicBlock::Create(context, "unwind.on", &function);
  auto *begin = BasicBlock::Create(context, "unwind", &function);
  IRBuilder<> builder(raise);
  if (DISubprogram *program = function.getSubprogram())
    builder.SetCurrentDebugLocation(DILocation::get(context, program->getLine(), 0, program));
  Value *waiting = builder.CreateLoad(runtime.pointer(), parent);
  builder.CreateCondBr(builder.CreateIsNull(waiting), to_caller, to_parent);

  builder.SetInsertPoint(to_caller);
  free_frame(builder);
  builder.CreateCondBr(in_flight, go_on, begin);
  builder.SetInsertPoint(go_on);
  auto *type = StructType::get(runtime.pointer(), runtime.integer());
  Value *none = Constant::getNullValue(type);
  builder.CreateResume(builder.CreateInsertValue(none, exception, 0));
  builder.SetInsertPoint(begin);
  FunctionCallee again =
      runtime.function("rt_rethrow", runtime.nothing(), {runtime.pointer()});
  builder.CreateCall(again, {exception})->setDoesNotReturn();
  builder.CreateUnreachable();

  builder.SetInsertPoint(to_parent);
  builder.CreateStore(exception, runtime.local(builder, "rt_thrown", runtime.pointer()));
  builder.CreateStore(waiting, runtime.next(builder));
  free_frame(builder);
  builder.CreateBr(suspended);
  return to_parent;
}

// A coroutine that was resumed returns nothing. The first part returns a handle.
void settleLandingPads(Module &module) {
  GlobalVariable *any = module.getNamedGlobal(ANY);
  if (!any) return;
  for (Function &function : module) {
    SmallVector<LandingPadInst *, 16> pads;
    for (Instruction &instruction : instructions(function)) {
      auto *pad = dyn_cast<LandingPadInst>(&instruction);
      if (pad && catches(*pad, any)) pads.push_back(pad);
    }
    bool is_first = !function.getReturnType()->isVoidTy();
    for (LandingPadInst *pad : pads) settle(*pad, any, is_first);
  }
  any->eraseFromParent();
}

} // namespace duality
