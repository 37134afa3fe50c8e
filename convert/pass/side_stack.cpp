// Calls on a side stack. The caller packs the arguments in its frame, and a thunk unpacks them on a
// thread with a stack.

#include "coroutine.h"

using namespace llvm;

namespace duality {

// void thunk(pack): calls with the arguments of the pack, and stores the value in the pack. If the
// callee is not a constant, it is the pack's first field.
Function *Coroutine::sideThunk(CallInst &call, StructType *pack, Value *constant_callee) {
  LLVMContext &context = function.getContext();
  auto *thunk = Function::Create(FunctionType::get(runtime.nothing(), {runtime.pointer()}, false),
                                 GlobalValue::InternalLinkage, original.getName() + ".side",
                                 function.getParent());
  for (StringRef name : {"target-cpu", "target-features", "frame-pointer"}) {
    if (original.hasFnAttribute(name)) thunk->addFnAttr(original.getFnAttribute(name));
  }
  IRBuilder<> builder(BasicBlock::Create(context, "", thunk));
  auto field = [&](unsigned index) {
    return builder.CreateStructGEP(pack, thunk->getArg(0), index);
  };
  SmallVector<Value *, 8> arguments;
  for (unsigned index = 0; index < call.arg_size(); index++) {
    arguments.push_back(builder.CreateLoad(call.getArgOperand(index)->getType(), field(index + 2)));
  }
  Value *callee =
      constant_callee ? constant_callee : builder.CreateLoad(runtime.pointer(), field(0));
  CallInst *made = builder.CreateCall(call.getFunctionType(), callee, arguments);
  made->setCallingConv(call.getCallingConv());
  made->setAttributes(call.getAttributes());
  if (!call.getType()->isVoidTy()) builder.CreateStore(made, field(1));
  builder.CreateRetVoid();
  if (lowered_may_throw) hold(*made, pack);
  return thunk;
}

// Awaits a call on a side stack. Without a `callee`, calls the function that `call` points to.
Value *Coroutine::awaitOnSideStack(IRBuilder<> &builder, CallInst &call, Value *callee,
                                   const Twine &what, const std::string &why) {
  converter.callAside({place(call), shown(what.str()), why});
  bool has_value = !call.getType()->isVoidTy();
  SmallVector<Type *, 8> fields = {runtime.pointer(),
                                   has_value ? call.getType() : runtime.pointer()};
  for (Value *argument : call.args()) fields.push_back(argument->getType());
  // C++: an exception that has left the call.
  if (lowered_may_throw) fields.push_back(runtime.pointer());
  auto *pack_type = StructType::get(function.getContext(), fields);
  const DataLayout &layout = function.getParent()->getDataLayout();
  AllocaInst *pack = temporary(pack_type, layout.getABITypeAlign(pack_type), "pack");
  ConstantInt *size = builder.getInt64(layout.getTypeAllocSize(pack_type));
  builder.CreateLifetimeStart(pack, size);
  for (unsigned index = 0; index < call.arg_size(); index++) {
    builder.CreateStore(call.getArgOperand(index),
                        builder.CreateStructGEP(pack_type, pack, index + 2));
  }
  if (!callee)
    builder.CreateStore(call.getCalledOperand(), builder.CreateStructGEP(pack_type, pack, 0));
  auto held = [&] {
    return builder.CreateStructGEP(pack_type, pack, pack_type->getNumElements() - 1);
  };
  if (lowered_may_throw)
    builder.CreateStore(ConstantPointerNull::get(runtime.pointer()), held());
  Function *thunk = sideThunk(call, pack_type, callee);
  FunctionCallee enter = runtime.function("rt_call_on_side_stack", runtime.pointer(),
                                          {runtime.pointer(), runtime.pointer()});
  await(builder, builder.CreateCall(enter, {thunk, pack}), runtime.nothing(), what);
  if (lowered_may_throw) throwWhatWasHeld(builder, held());
  Value *value =
      has_value ? builder.CreateLoad(call.getType(), builder.CreateStructGEP(pack_type, pack, 1))
                : nullptr;
  builder.CreateLifetimeEnd(pack, size);
  return value;
}

} // namespace duality
