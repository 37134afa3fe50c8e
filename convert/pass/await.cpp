// Converts calls that may block. Each becomes a call of the coroutine or the primitive, with a
// place to suspend after it.

#include "coroutine.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;

namespace duality {

void Coroutine::lowerCalls() {
  LLVMContext &context = function.getContext();
  suspended = BasicBlock::Create(context, "suspended", &function);
  destroyed = BasicBlock::Create(context, "destroyed", &function);
  catchAll();
  SmallVector<CallBase *, 16> calls;
  for (Instruction &instruction : instructions(function)) {
    if (isa<CallInst>(instruction) || isa<InvokeInst>(instruction))
      calls.push_back(cast<CallBase>(&instruction));
  }
  for (CallBase *base : calls) {
    auto *call = dyn_cast<CallInst>(base);
    if (auto *invoke = dyn_cast<InvokeInst>(base)) {
      // A call that does not wait stays as it is.
      if (analysis.classify(*invoke).kind == Call::Plain) continue;
      call = callOf(*invoke);
    } else {
      unwind = thrown;
    }
    // `tail` promises that a callee keeps no address of this frame. A coroutine may keep such
    // addresses after the call.
    if (!call->isMustTailCall()) call->setTailCallKind(CallInst::TCK_None);
    lowered_may_throw = thrown && analysis.throwing().mayThrow(*call);
    if (!lowerCall(*call) && lowered_may_throw) may_throw.push_back(call);
    protect();
  }
}

// Returns false if the call stays as it is.
bool Coroutine::lowerCall(CallInst &call) {
  Call classified = analysis.classify(call);
  if (classified.kind == Call::Plain) return false;
  BasicBlock *before = call.getParent();
  BasicBlock *after = SplitBlock(before, &call);
  before->getTerminator()->eraseFromParent();
  IRBuilder<> builder(before);
  builder.SetCurrentDebugLocation(call.getDebugLoc());
  Value *value = nullptr;
  switch (classified.kind) {
  case Call::Primitive: value = awaitPrimitive(builder, call, *classified.primitive); break;
  case Call::Direct: value = awaitTarget(builder, call, *classified.callee); break;
  case Call::Indirect: value = awaitIndirect(builder, call, classified.targets); break;
  case Call::Library:
    value = awaitOnSideStack(builder, call, classified.callee, classified.callee->getName(),
                             "a library function that may block");
    break;
  case Call::Callback:
    value = awaitOnSideStack(
        builder, call, classified.callee, classified.callee->getName(),
        "it may call " + shown(classified.targets.front()->getName()) + ", which may block");
    break;
  case Call::Plain: break;
  }
  builder.CreateBr(after);
  if (!call.getType()->isVoidTy()) call.replaceAllUsesWith(value);
  call.eraseFromParent();
  return true;
}

// Comes after a call that returned {handle, value} or a handle. Suspends until the value is there.
// Leaves the builder at the place where the coroutine goes on.
Value *Coroutine::await(IRBuilder<> &builder, Value *returned, Type *result, const Twine &name) {
  LLVMContext &context = function.getContext();
  Module *module = function.getParent();
  bool has_value = !result->isVoidTy();
  Value *other = has_value ? builder.CreateExtractValue(returned, 0) : returned;
  Value *at_once = has_value ? builder.CreateExtractValue(returned, 1) : nullptr;
  BasicBlock *from = builder.GetInsertBlock();
  BasicBlock *next = from->getNextNode();
  auto *wait = BasicBlock::Create(context, name + ".wait", &function, next);
  auto *resumed = BasicBlock::Create(context, name + ".resumed", &function, next);
  auto *way_out = BasicBlock::Create(context, name + ".destroyed", &function, next);
  auto *go_on = BasicBlock::Create(context, name + ".done", &function, next);
  MDNode *likely = MDBuilder(context).createBranchWeights(16, 1);
  builder.CreateCondBr(builder.CreateIsNull(other), go_on, wait, likely);

  builder.SetInsertPoint(wait);
  builder.CreateStore(handle,
                      builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), other, PARENT));
  Value *state = builder.CreateCall(Intrinsic::getDeclaration(module, Intrinsic::coro_suspend),
                                    {ConstantTokenNone::get(context), builder.getFalse()});
  SwitchInst *choice = builder.CreateSwitch(state, suspended, 2);
  choice->addCase(builder.getInt8(0), resumed);
  choice->addCase(builder.getInt8(1), way_out);

  builder.SetInsertPoint(way_out);
  builder.CreateBr(destroyed);
  ways_out.push_back(way_out);

  builder.SetInsertPoint(resumed);
  throwWhatWasThrown(builder);
  resumed = builder.GetInsertBlock();
  Value *later = has_value
                     ? builder.CreateAlignedLoad(result, runtime.returnRegister(builder), Align(16))
                     : nullptr;
  builder.CreateBr(go_on);

  builder.SetInsertPoint(go_on);
  if (!has_value) return nullptr;
  PHINode *value = builder.CreatePHI(result, 2, name);
  value->addIncoming(at_once, from);
  value->addIncoming(later, resumed);
  return value;
}

// The checks of the functions of _FORTIFY_SOURCE.
void Coroutine::checkBound(IRBuilder<> &builder, CallInst &call, const Primitive &primitive) {
  LLVMContext &context = function.getContext();
  BasicBlock *next = builder.GetInsertBlock()->getNextNode();
  auto *fail = BasicBlock::Create(context, "overflow", &function, next);
  auto *pass = BasicBlock::Create(context, "fits", &function, next);
  Value *length = builder.CreateZExtOrTrunc(call.getArgOperand(primitive.length), runtime.size());
  Value *room = builder.CreateZExtOrTrunc(call.getArgOperand(primitive.bound), runtime.size());
  Value *most = builder.CreateUDiv(room, builder.getInt64(primitive.unit));
  builder.CreateCondBr(builder.CreateICmpUGT(length, most), fail, pass);
  builder.SetInsertPoint(fail);
  builder.CreateCall(runtime.function("__chk_fail", runtime.nothing(), {}))->setDoesNotReturn();
  builder.CreateUnreachable();
  builder.SetInsertPoint(pass);
}

Value *Coroutine::awaitPrimitive(IRBuilder<> &builder, CallInst &call, const Primitive &primitive) {
  if (primitive.bound >= 0) checkBound(builder, call, primitive);
  SmallVector<Value *, 6> arguments;
  SmallVector<Type *, 6> types;
  // syscall() takes more arguments than the primitive needs.
  unsigned count = primitive.name == "syscall" ? FUTEX_ARGUMENTS : call.arg_size();
  for (unsigned index = 0; index < count; index++) {
    if (static_cast<int>(index) == primitive.bound) continue;
    arguments.push_back(call.getArgOperand(index));
    types.push_back(arguments.back()->getType());
  }
  auto *type = FunctionType::get(runtime.returned(call.getType()), types, false);
  FunctionCallee callee = function.getParent()->getOrInsertFunction(primitive.runtime, type);
  // Uses the type of this call, because a program may have declared the function in more than one
  // way.
  Value *returned = builder.CreateCall(type, callee.getCallee(), arguments);
  return await(builder, returned, call.getType(), primitive.name);
}

Value *Coroutine::awaitTarget(IRBuilder<> &builder, CallInst &call, Function &target) {
  if (!target.isDeclaration()) {
    std::string why = analysis.obstacle(target);
    if (!fits(call, target)) why = "it is called as a function of another type";
    if (why.empty()) return awaitFunction(builder, call, target);
    return awaitOnSideStack(builder, call, &target, target.getName(), why);
  }
  const Primitive *known = primitive(target);
  if (known && known->role == Role::Waits) return awaitPrimitive(builder, call, *known);
  return awaitOnSideStack(builder, call, &target, target.getName(),
                          "a library function that may block");
}

Value *Coroutine::convert(IRBuilder<> &builder, Value *value, Type *type) {
  Type *from = value->getType();
  if (from == type) return value;
  if (from->isPointerTy()) return builder.CreatePtrToInt(value, type);
  if (type->isPointerTy()) return builder.CreateIntToPtr(value, type);
  return builder.CreateZExtOrTrunc(value, type);
}

Value *Coroutine::awaitFunction(IRBuilder<> &builder, CallInst &call, Function &callee) {
  Function *coroutine = converter.coroutineOf(callee);
  const DataLayout &layout = function.getParent()->getDataLayout();
  SmallVector<AllocaInst *, 1> temporaries;
  SmallVector<Value *, 8> arguments;
  unsigned fixed = callee.arg_size();
  for (unsigned index = 0; index < fixed; index++) {
    arguments.push_back(
        convert(builder, call.getArgOperand(index), callee.getArg(index)->getType()));
  }
  if (callee.isVarArg())
    arguments.push_back(packVariableArguments(builder, call, fixed, temporaries));
  CallInst *clone = builder.CreateCall(coroutine, arguments);
  // The attributes that the ABI needs, as on the clone.
  AttributeList attributes;
  for (unsigned index = 0; index < fixed; index++) {
    AttrBuilder kept(function.getContext(), coroutine->getAttributes().getParamAttrs(index));
    attributes = attributes.addParamAttributes(function.getContext(), index, kept);
  }
  clone->setAttributes(attributes);
  if (lowered_may_throw) may_throw.push_back(clone);
  Value *value = await(builder, clone, callee.getReturnType(), callee.getName());
  for (AllocaInst *temporary : temporaries) {
    builder.CreateLifetimeEnd(
        temporary, builder.getInt64(layout.getTypeAllocSize(temporary->getAllocatedType())));
  }
  if (call.getType()->isVoidTy()) return nullptr;
  if (!value) return PoisonValue::get(call.getType());
  return convert(builder, value, call.getType());
}

} // namespace duality
