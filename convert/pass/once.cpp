// pthread_once as a function of the program. If its routine may block, this function becomes a
// coroutine like any other.

#include "once.h"

#include "throwing.h"

#include "llvm/IR/IRBuilder.h"

using namespace llvm;

namespace duality {

// int duality.once(once, routine): does the work of pthread_once, by the two halves of the runtime.
Function *makeOnce(Module &module) {
  Function *declared = module.getFunction("pthread_once");
  if (!declared || !declared->isDeclaration()) return nullptr;
  LLVMContext &context = module.getContext();
  Type *i32 = Type::getInt32Ty(context), *ptr = PointerType::getUnqual(context);
  FunctionCallee begin =
      module.getOrInsertFunction("rt_once_begin", FunctionType::get(i32, {ptr}, false));
  FunctionCallee end = module.getOrInsertFunction(
      "rt_once_end", FunctionType::get(Type::getVoidTy(context), {ptr}, false));
  Function *once = Function::Create(FunctionType::get(i32, {ptr, ptr}, false),
                                    GlobalValue::InternalLinkage, "duality.once", module);
  auto *entry = BasicBlock::Create(context, "", once),
       *run = BasicBlock::Create(context, "run", once);
  auto *done = BasicBlock::Create(context, "done", once);
  IRBuilder<> builder(entry);
  Value *first = builder.CreateCall(begin, {once->getArg(0)});
  builder.CreateCondBr(builder.CreateIsNotNull(first), run, done);
  builder.SetInsertPoint(run);
  auto *routine = FunctionType::get(Type::getVoidTy(context), false);
  if (Function *personality = cxxPersonality(module)) {
    // After an exception, the next thread runs the routine.
    auto *ended = BasicBlock::Create(context, "ended", once),
         *left = BasicBlock::Create(context, "left", once);
    once->setPersonalityFn(personality);
    builder.CreateInvoke(routine, once->getArg(1), ended, left);
    builder.SetInsertPoint(left);
    LandingPadInst *pad = builder.CreateLandingPad(StructType::get(ptr, i32), 0);
    pad->setCleanup(true);
    builder.CreateCall(module.getOrInsertFunction(
                           "rt_once_abandon",
                           FunctionType::get(Type::getVoidTy(context), {ptr}, false)),
                       {once->getArg(0)})
        ->setDoesNotThrow();
    builder.CreateResume(pad);
    builder.SetInsertPoint(ended);
  } else {
    builder.CreateCall(routine, once->getArg(1));
  }
  builder.CreateCall(end, {once->getArg(0)})->setDoesNotThrow();
  builder.CreateBr(done);
  builder.SetInsertPoint(done);
  builder.CreateRet(builder.getInt32(0));
  return once;
}

} // namespace duality
