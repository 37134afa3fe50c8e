// The program's thread-local variables. Tasks share a thread, so a `__thread` variable must belong
// to the task instead.
//
// The variables become one struct. Each thread has a native copy of the struct, and each task has a
// copy in memory of the runtime. The function rt_locals returns the copy in use.

#include "converter.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/ReplaceConstant.h"

using namespace llvm;

namespace duality {
namespace {

// The place of each variable in the struct. The struct's fields are bytes of padding and variables
// in turn.
struct Layout {
  SmallVector<Type *, 16> types;
  SmallVector<Constant *, 16> initial;
  SmallVector<std::pair<GlobalVariable *, uint64_t>, 8> offsets;
  uint64_t size = 0;
  Align align = Align(16);

  void add(GlobalVariable &variable, const DataLayout &layout) {
    Align own = std::max(variable.getAlign().valueOrOne(), layout.getPreferredAlign(&variable));
    align = std::max(align, own);
    pad(alignTo(size, own));
    offsets.push_back({&variable, size});
    types.push_back(variable.getValueType());
    initial.push_back(variable.getInitializer());
    size += layout.getTypeAllocSize(variable.getValueType());
  }
  void pad(uint64_t to) {
    if (to == size) return;
    auto *type = ArrayType::get(Type::getInt8Ty(offsets.front().first->getContext()), to - size);
    types.push_back(type);
    initial.push_back(Constant::getNullValue(type));
    size = to;
  }
};

} // namespace

void moveLocals(Module &module, Runtime &runtime, GlobalVariable &program) {
  const DataLayout &data = module.getDataLayout();
  Layout layout;
  SmallVector<Constant *, 8> variables;
  for (GlobalVariable &variable : module.globals()) {
    if (!variable.isThreadLocal() || variable.isDeclaration()) continue;
    layout.add(variable, data);
    variables.push_back(&variable);
  }
  if (variables.empty()) return;
  convertUsersOfConstantsToInstructions(variables);
  auto *type = StructType::get(module.getContext(), layout.types, true);
  Constant *initial = ConstantStruct::get(type, layout.initial);
  auto *native = new GlobalVariable(module, type, false, GlobalValue::InternalLinkage, initial,
                                    "duality.locals", nullptr, GlobalValue::GeneralDynamicTLSModel);
  native->setAlignment(layout.align);
  auto *image = new GlobalVariable(module, type, true, GlobalValue::InternalLinkage, initial,
                                   "duality.locals.image");
  image->setAlignment(layout.align);
  Constant *known = program.getInitializer();
  program.setInitializer(
      ConstantStruct::get(cast<StructType>(program.getValueType()),
                          {known->getAggregateElement(0u), known->getAggregateElement(1u),
                           ConstantInt::get(runtime.size(), layout.size),
                           ConstantInt::get(runtime.size(), layout.align.value()), image}));

  Type *ptr = runtime.pointer();
  FunctionCallee locals = runtime.function("rt_locals", ptr, {ptr, ptr});
  for (auto &[variable, offset] : layout.offsets) {
    auto address = [&, offset = offset](Instruction &before) {
      IRBuilder<> builder(&before);
      Value *own = builder.CreateThreadLocalAddress(native);
      Value *base = builder.CreateCall(locals, {own, &program});
      return builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), base, offset);
    };
    for (Use &use : make_early_inc_range(variable->uses())) {
      auto *instruction = dyn_cast<Instruction>(use.getUser());
      if (!instruction) continue;
      auto *intrinsic = dyn_cast<IntrinsicInst>(instruction);
      if (intrinsic && intrinsic->getIntrinsicID() == Intrinsic::threadlocal_address) {
        intrinsic->replaceAllUsesWith(address(*intrinsic));
        intrinsic->eraseFromParent();
      } else if (auto *phi = dyn_cast<PHINode>(instruction)) {
        use.set(address(*phi->getIncomingBlock(use)->getTerminator()));
      } else {
        use.set(address(*instruction));
      }
    }
  }
}

} // namespace duality
