// Calls by a pointer: finds the blocking function that the pointer leads to.
//
// The code compares a few functions one by one. If there are many, each function has a note in
// front of its first instruction. By the note, the runtime finds the function's coroutine
// (`rt_coroutine_of`):
//
// ```text
//   -16  the shape: a hash of the type that the coroutine is called by
//   -12  MAGIC
//    -8  zero
//    -4  the number of the coroutine in the table `duality.coroutines`; zero if there is none
// ```
//
// The code calls a function on a side stack if its note has another shape, or no coroutine.
//
// C++ programs call by pointers much more often, and only by the exact type. If all functions that
// a call may lead to have coroutines, one function for each type finds and calls them
// (`dispatcher`). A call by a pointer is then as small as any other call.

#include "coroutine.h"

using namespace llvm;

namespace duality {
namespace {

// The most functions that the code compares.
constexpr size_t FEW = 4;
constexpr uint32_t MAGIC = 0x44554e54;

// The shape of a type. Types that are called alike have equal shapes.
uint32_t shapeOf(const FunctionType &type) {
  std::string text;
  raw_string_ostream(text) << type;
  uint32_t hash = 2166136261u;
  for (unsigned char letter : text) hash = (hash ^ letter) * 16777619u;
  return hash;
}

bool passesCopies(const Function &function) {
  return any_of(function.args(), [](const Argument &argument) { return argument.hasByValAttr(); });
}

// Whether the call may call the target's coroutine by its own type alone.
bool isAlike(const CallInst &call, const Function &target) {
  return target.getFunctionType() == call.getFunctionType() && !target.isVarArg() &&
         !passesCopies(target);
}

// The attributes that the ABI needs for the arguments of a call.
AttributeList attributesOfArguments(const CallInst &call) {
  LLVMContext &context = call.getContext();
  AttributeList attributes;
  for (unsigned index = 0; index < call.arg_size(); index++) {
    for (Attribute::AttrKind kind : {Attribute::ZExt, Attribute::SExt, Attribute::InReg}) {
      if (call.paramHasAttr(index, kind))
        attributes = attributes.addParamAttribute(context, index, kind);
    }
  }
  return attributes;
}

} // namespace

Value *Coroutine::awaitIndirect(IRBuilder<> &builder, CallInst &call,
                                ArrayRef<Function *> targets) {
  Value *pointer = call.getCalledOperand();
  bool few = targets.size() <= FEW;
  bool all_converted = all_of(targets, [&](Function *target) {
    return !target->isDeclaration() && isAlike(call, *target) &&
           analysis.obstacle(*target).empty();
  });
  if (all_converted && targets.size() > 1 && cxxPersonality(*function.getParent())) {
    for (Function *target : targets) converter.note(*target, true);
    SmallVector<Value *, 8> arguments(call.args());
    arguments.push_back(pointer);
    Function *dispatcher = converter.dispatcher(call);
    CallInst *begun = builder.CreateCall(dispatcher, arguments);
    begun->setAttributes(dispatcher->getAttributes());
    if (lowered_may_throw) may_throw.push_back(begun);
    return await(builder, begun, call.getType(), "dispatched");
  }
  LLVMContext &context = function.getContext();
  BasicBlock *next = builder.GetInsertBlock()->getNextNode();
  auto *join = BasicBlock::Create(context, "called", &function, next);
  SmallVector<std::pair<Value *, BasicBlock *>, 4> values;
  auto answer = [&](Value *value) {
    values.push_back({value, builder.GetInsertBlock()});
    builder.CreateBr(join);
  };
  for (Function *target : targets) {
    if (!few && !target->isDeclaration()) {
      converter.note(*target, isAlike(call, *target));
      continue;
    }
    auto *is = BasicBlock::Create(context, "is." + target->getName(), &function, join);
    auto *is_not = BasicBlock::Create(context, "is.not", &function, join);
    builder.CreateCondBr(builder.CreateICmpEQ(pointer, target), is, is_not);
    builder.SetInsertPoint(is);
    answer(awaitTarget(builder, call, *target));
    builder.SetInsertPoint(is_not);
  }
  if (!few) awaitNoted(builder, call, *join, answer);
  // Any other function does not block.
  auto *plain = cast<CallInst>(call.clone());
  builder.Insert(plain);
  if (lowered_may_throw) may_throw.push_back(plain);
  answer(plain);
  builder.SetInsertPoint(join);
  if (call.getType()->isVoidTy()) return nullptr;
  PHINode *result = builder.CreatePHI(call.getType(), values.size());
  for (auto &[value, block] : values) result->addIncoming(value, block);
  return result;
}

// Awaits the coroutine that the runtime finds, or a call on a side stack. If the function does not
// block, calls it directly.
void Coroutine::awaitNoted(IRBuilder<> &builder, CallInst &call, BasicBlock &join,
                           function_ref<void(Value *)> answer) {
  LLVMContext &context = function.getContext();
  auto block = [&](const char *name) {
    return BasicBlock::Create(context, name, &function, &join);
  };
  BasicBlock *blocks = block("is.noted"), *alike = block("is.coroutine"),
             *other = block("is.other"), *is_not = block("is.not");
  FunctionCallee find = runtime.function("rt_coroutine_of", runtime.pointer(),
                                         {runtime.pointer(), runtime.integer(), runtime.pointer()});
  ConstantInt *shape = builder.getInt32(shapeOf(*call.getFunctionType()));
  Value *found = builder.CreateCall(find, {call.getCalledOperand(), shape, converter.table()});
  builder.CreateCondBr(builder.CreateIsNull(found), is_not, blocks);
  builder.SetInsertPoint(blocks);
  builder.CreateCondBr(builder.CreateICmpEQ(found, call.getCalledOperand()), other, alike);

  builder.SetInsertPoint(alike);
  auto *type =
      FunctionType::get(runtime.returned(call.getType()), call.getFunctionType()->params(), false);
  SmallVector<Value *, 8> arguments(call.args());
  CallInst *begun = builder.CreateCall(type, found, arguments);
  begun->setAttributes(attributesOfArguments(call));
  if (lowered_may_throw) may_throw.push_back(begun);
  answer(await(builder, begun, call.getType(), "noted"));

  builder.SetInsertPoint(other);
  answer(awaitOnSideStack(builder, call, nullptr, "a function by its address",
                          "it cannot be converted, or is called as a function of another type"));
  builder.SetInsertPoint(is_not);
}

// `{handle, value} dispatch(arguments…, function)`: begins the coroutine of the function, or calls
// a function that does not block.
Function *Converter::dispatcher(const CallInst &call) {
  FunctionType *called = call.getFunctionType();
  AttributeList attributes = attributesOfArguments(call);
  Function *&known = dispatchers[{called, attributes.getRawPointer()}];
  if (known) return known;
  LLVMContext &context = module.getContext();
  SmallVector<Type *, 8> parameters(called->params());
  parameters.push_back(runtime.pointer());
  Type *result = runtime.returned(called->getReturnType());
  known = Function::Create(FunctionType::get(result, parameters, false),
                           GlobalValue::InternalLinkage, "duality.dispatch", module);
  known->setAttributes(attributes);
  known->addFnAttr(Attribute::NoInline);
  known->addFnAttr(Attribute::getWithUWTableKind(context, UWTableKind::Default));
  auto *plain = BasicBlock::Create(context, "plain"), *begin = BasicBlock::Create(context, "begin");
  IRBuilder<> builder(BasicBlock::Create(context, "", known));
  plain->insertInto(known);
  begin->insertInto(known);
  Argument *target = known->getArg(called->getNumParams());
  SmallVector<Value *, 8> arguments;
  for (Argument &argument : known->args()) {
    if (&argument != target) arguments.push_back(&argument);
  }
  FunctionCallee find = runtime.function("rt_coroutine_of", runtime.pointer(),
                                         {runtime.pointer(), runtime.integer(), runtime.pointer()});
  Value *found =
      builder.CreateCall(find, {target, builder.getInt32(shapeOf(*called)), table()});
  builder.CreateCondBr(builder.CreateIsNull(found), plain, begin);

  builder.SetInsertPoint(plain);
  CallInst *made = builder.CreateCall(called, target, arguments);
  made->setAttributes(attributes);
  Value *none = ConstantPointerNull::get(runtime.pointer());
  if (called->getReturnType()->isVoidTy()) {
    builder.CreateRet(none);
  } else {
    Value *pair = builder.CreateInsertValue(PoisonValue::get(result), none, 0);
    builder.CreateRet(builder.CreateInsertValue(pair, made, 1));
  }

  builder.SetInsertPoint(begin);
  CallInst *begun =
      builder.CreateCall(FunctionType::get(result, called->params(), false), found, arguments);
  begun->setAttributes(attributes);
  begun->setTailCallKind(CallInst::TCK_Tail);
  builder.CreateRet(begun);
  return known;
}

// Puts the note in front of a function that may block.
void Converter::note(Function &target, bool alike) {
  bool converted = alike && analysis.obstacle(target).empty();
  // A function that some calls use as another type may fit this call.
  if (target.hasPrefixData() && !(converted && noted_without_coroutine.erase(&target))) return;
  uint32_t number = 0;
  if (converted) {
    noted.push_back(coroutineOf(target));
    number = static_cast<uint32_t>(noted.size());
  } else {
    noted_without_coroutine.insert(&target);
  }
  auto word = [&](uint32_t value) { return ConstantInt::get(runtime.integer(), value); };
  target.setPrefixData(ConstantStruct::getAnon(
      {word(shapeOf(*target.getFunctionType())), word(MAGIC), word(0), word(number)}, true));
}

// The placeholder of the table until all coroutines are known.
Value *Converter::table() {
  if (!table_variable)
    table_variable = new GlobalVariable(module, runtime.pointer(), true,
                                        GlobalValue::ExternalLinkage, nullptr, "duality.table");
  return table_variable;
}

void Converter::makeTable() {
  if (!table_variable) return;
  SmallVector<Constant *, 16> entries = {ConstantPointerNull::get(runtime.pointer())};
  append_range(entries, noted);
  auto *type = ArrayType::get(runtime.pointer(), entries.size());
  auto *filled = new GlobalVariable(module, type, true, GlobalValue::InternalLinkage,
                                    ConstantArray::get(type, entries), "duality.coroutines");
  table_variable->replaceAllUsesWith(filled);
  table_variable->eraseFromParent();
}

} // namespace duality
