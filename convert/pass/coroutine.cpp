// Builds a coroutine: the clone, its beginning and its end.

#include "coroutine.h"

#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Intrinsics.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/Local.h"

using namespace llvm;

namespace duality {
namespace {

// Attributes that a clone keeps. All others were inferred for the original (`nocapture`,
// `memory(...)`, a range of the result). Inferred attributes are wrong for a function that
// suspends, because its memory outlives the call.
const StringRef KEPT[] = {"target-cpu",
                          "target-features",
                          "tune-cpu",
                          "frame-pointer",
                          "no-trapping-math",
                          "stack-protector-buffer-size",
                          "min-legal-vector-width",
                          "no-jump-tables"};
const Attribute::AttrKind KEPT_KINDS[] = {Attribute::StackProtect,    Attribute::StackProtectStrong,
                                          Attribute::StackProtectReq, Attribute::UWTable,
                                          Attribute::NoUnwind,        Attribute::StrictFP,
                                          Attribute::SanitizeAddress, Attribute::NoInline};
const Attribute::AttrKind KEPT_OF_PARAMETERS[] = {Attribute::ZExt, Attribute::SExt,
                                                  Attribute::InReg};

} // namespace

AttributeList attributesOfCoroutine(const Function &original, bool throws) {
  LLVMContext &context = original.getContext();
  AttrBuilder own(context);
  for (StringRef name : KEPT) {
    if (original.hasFnAttribute(name)) own.addAttribute(original.getFnAttribute(name));
  }
  for (Attribute::AttrKind kind : KEPT_KINDS) {
    if (original.hasFnAttribute(kind)) own.addAttribute(original.getFnAttribute(kind));
  }
  // The end of a thread may leave a function that itself never throws.
  if (throws) own.removeAttribute(Attribute::NoUnwind);
  AttributeList list = AttributeList().addFnAttributes(context, own);
  for (const Argument &argument : original.args()) {
    for (Attribute::AttrKind kind : KEPT_OF_PARAMETERS) {
      if (argument.hasAttribute(kind))
        list = list.addParamAttribute(context, argument.getArgNo(), kind);
    }
    if (Type *type = argument.getParamByValType()) {
      list = list.addParamAttribute(context, argument.getArgNo(),
                                    Attribute::getWithByValType(context, type));
      if (MaybeAlign align = argument.getParamAlign()) {
        list = list.addParamAttribute(context, argument.getArgNo(),
                                      Attribute::getWithAlignment(context, *align));
      }
    }
  }
  return list;
}

void Coroutine::build() {
  clone();
  copyByValueArguments();
  begin();
  lowerCleanups();
  dropIntervalsOfAllocas();
  lowerDynamicAllocas();
  lowerVaStart();
  askForErrnoAgain();
  giveWayInSpinningLoops();
  lowerCalls();
  end();
  markEndsOfLife();
  // Removes landing pads that no invoke leads to any more.
  if (thrown) removeUnreachableBlocks(function);
  if (verifyFunction(function, &errs()))
    report_fatal_error("duality: the coroutine of " + original.getName() + " is malformed");
}

void Coroutine::clone() {
  ValueToValueMapTy map;
  for (Argument &argument : original.args()) {
    function.getArg(argument.getArgNo())->setName(argument.getName());
    map[&argument] = function.getArg(argument.getArgNo());
  }
  if (original.isVarArg()) {
    variable_arguments = function.getArg(function.arg_size() - 1);
    variable_arguments->setName("variable.arguments");
  }
  SmallVector<ReturnInst *, 4> returns;
  AttributeList attributes = function.getAttributes();
  CloneFunctionInto(&function, &original, map, CloneFunctionChangeType::LocalChangesOnly, returns);
  // Callers of the clone use the C convention and the attributes of its declaration. A static
  // original is often `fastcc`, and the clone inherits `fastcc`.
  function.setCallingConv(CallingConv::C);
  function.setAttributes(attributes);
  function.setLinkage(GlobalValue::InternalLinkage);
  function.setVisibility(GlobalValue::DefaultVisibility);
  function.setDLLStorageClass(GlobalValue::DefaultStorageClass);
  function.setDSOLocal(true);
  function.setComdat(nullptr);
  function.setSection("");
  function.setPresplitCoroutine();
}

void Coroutine::begin() {
  BasicBlock &entry = function.getEntryBlock();
  // Static variables come first: the code after coro.begin may use them.
  SmallVector<AllocaInst *, 16> variables;
  for (Instruction &instruction : entry) {
    auto *variable = dyn_cast<AllocaInst>(&instruction);
    if (variable && variable->isStaticAlloca()) variables.push_back(variable);
  }
  for (AllocaInst *variable : reverse(variables)) variable->moveBefore(entry, entry.begin());
  BasicBlock::iterator start = entry.begin();
  while (isa<AllocaInst>(*start) && cast<AllocaInst>(*start).isStaticAlloca()) ++start;

  IRBuilder<> builder(&entry, start);
  if (DISubprogram *program = function.getSubprogram()) {
    builder.SetCurrentDebugLocation(
        DILocation::get(function.getContext(), program->getLine(), 0, program));
  }
  Module *module = function.getParent();
  auto *null = ConstantPointerNull::get(runtime.pointer());
  parent = builder.CreateAlloca(runtime.pointer(), nullptr, "parent");
  id = builder.CreateCall(Intrinsic::getDeclaration(module, Intrinsic::coro_id),
                          {builder.getInt32(16), parent, null, null});
  Value *size =
      builder.CreateCall(Intrinsic::getDeclaration(module, Intrinsic::coro_size, {runtime.size()}));
  Value *align = builder.CreateCall(
      Intrinsic::getDeclaration(module, Intrinsic::coro_align, {runtime.size()}));
  Value *frame = builder.CreateCall(
      runtime.function("rt_frame_allocate", runtime.pointer(), {runtime.size(), runtime.size()}),
      {size, align});
  handle = builder.CreateCall(Intrinsic::getDeclaration(module, Intrinsic::coro_begin), {id, frame},
                              "handle");
  builder.CreateStore(null, parent);
}

void Coroutine::end() {
  LLVMContext &context = function.getContext();
  Module *module = function.getParent();
  Type *result = original.getReturnType();
  auto *leave = BasicBlock::Create(context, "leave", &function);
  auto *give = BasicBlock::Create(context, "give", &function);
  auto *release = BasicBlock::Create(context, "release", &function);
  auto *null = ConstantPointerNull::get(runtime.pointer());
  IRBuilder<> builder(leave);
  if (DISubprogram *program = function.getSubprogram()) {
    builder.SetCurrentDebugLocation(DILocation::get(context, program->getLine(), 0, program));
  }
  auto free_frame = [&](IRBuilder<> &builder) {
    if (arrays)
      builder.CreateCall(runtime.function("rt_array_release", runtime.nothing(),
                                          {runtime.pointer(), runtime.pointer()}),
                         {arrays, null});
    Value *frame =
        builder.CreateCall(Intrinsic::getDeclaration(module, Intrinsic::coro_free), {id, handle});
    Value *size = builder.CreateCall(
        Intrinsic::getDeclaration(module, Intrinsic::coro_size, {runtime.size()}));
    Value *align = builder.CreateCall(
        Intrinsic::getDeclaration(module, Intrinsic::coro_align, {runtime.size()}));
    builder.CreateCall(runtime.function("rt_frame_free", runtime.nothing(),
                                        {runtime.pointer(), runtime.size(), runtime.size()}),
                       {frame, size, align});
  };

  PHINode *value = result->isVoidTy() ? nullptr : builder.CreatePHI(result, 2, "value");
  Value *waiting = builder.CreateLoad(runtime.pointer(), parent);
  builder.CreateCondBr(builder.CreateIsNull(waiting), release, give);

  builder.SetInsertPoint(give);
  if (value) builder.CreateAlignedStore(value, runtime.returnRegister(builder), Align(16));
  builder.CreateStore(waiting, runtime.next(builder));
  builder.CreateBr(release);

  builder.SetInsertPoint(release);
  free_frame(builder);
  builder.CreateBr(suspended);

  builder.SetInsertPoint(destroyed);
  free_frame(builder);
  builder.CreateBr(suspended);
  BasicBlock *thrown_away = leaveByException(free_frame);

  // In the resumed parts coro.end returns. In the first part, the code after coro.end returns.
  builder.SetInsertPoint(suspended);
  PHINode *waits = builder.CreatePHI(runtime.pointer(), 4);
  PHINode *returned = value ? builder.CreatePHI(result, 4) : nullptr;
  for (BasicBlock *from : predecessors(suspended)) {
    bool complete = from == release;
    bool is_over = complete || from == thrown_away;
    waits->addIncoming(is_over ? static_cast<Value *>(null) : handle, from);
    if (returned)
      returned->addIncoming(complete ? static_cast<Value *>(value) : PoisonValue::get(result),
                            from);
  }
  builder.CreateCall(Intrinsic::getDeclaration(module, Intrinsic::coro_end),
                     {handle, builder.getFalse(), ConstantTokenNone::get(context)});
  if (!value) {
    builder.CreateRet(waits);
  } else {
    Value *pair = builder.CreateInsertValue(PoisonValue::get(function.getReturnType()), waits, 0);
    builder.CreateRet(builder.CreateInsertValue(pair, returned, 1));
  }
  lowerReturns(leave, value);
}

void Coroutine::lowerReturns(BasicBlock *leave, PHINode *value) {
  SmallVector<ReturnInst *, 4> returns;
  for (BasicBlock &block : function) {
    auto *instruction = dyn_cast<ReturnInst>(block.getTerminator());
    if (instruction && &block != suspended) returns.push_back(instruction);
  }
  for (ReturnInst *instruction : returns) {
    if (value) value->addIncoming(instruction->getReturnValue(), instruction->getParent());
    IRBuilder<>(instruction).CreateBr(leave);
    instruction->eraseFromParent();
  }
  if (!returns.empty()) return;
  // A function that never returns has no way to `leave`.
  if (value) {
    value->replaceAllUsesWith(PoisonValue::get(value->getType()));
    value->eraseFromParent();
  }
}

} // namespace duality
