// Functions with variable arguments that may block, on x86-64.
//
// Registers do not outlive a suspension. So the caller lays the variable arguments out in its own
// frame, as the ABI lays them out on the stack. The caller passes the address. va_start makes a
// va_list with used-up register areas, so that each va_arg takes from that address. Source: System
// V ABI, AMD64 supplement, 3.5.7.

#include "coroutine.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace duality {
namespace {

constexpr uint64_t SLOT = 8;
constexpr unsigned GENERAL_USED_UP = 48;
constexpr unsigned VECTOR_USED_UP = 176;

} // namespace

Value *Coroutine::packVariableArguments(IRBuilder<> &builder, CallInst &call, unsigned fixed,
                                        SmallVectorImpl<AllocaInst *> &temporaries) {
  const DataLayout &layout = function.getParent()->getDataLayout();
  struct Slot {
    unsigned index;
    uint64_t offset;
    Type *by_value;
  };
  SmallVector<Slot, 8> slots;
  uint64_t end = 0;
  Align most(16);
  for (unsigned index = fixed; index < call.arg_size(); index++) {
    Type *by_value = call.isByValArgument(index) ? call.getParamByValType(index) : nullptr;
    Type *type = by_value ? by_value : call.getArgOperand(index)->getType();
    uint64_t align = by_value
                         ? call.getParamAlign(index).value_or(layout.getABITypeAlign(type)).value()
                         : layout.getABITypeAlign(type).value();
    align = std::max(align, SLOT);
    most = std::max(most, Align(align));
    end = alignTo(end, align);
    slots.push_back({index, end, by_value});
    end += alignTo(layout.getTypeAllocSize(type), SLOT);
  }
  if (slots.empty()) return ConstantPointerNull::get(runtime.pointer());
  auto *type = ArrayType::get(builder.getInt8Ty(), alignTo(end, SLOT));
  AllocaInst *area = temporary(type, most, "variable.arguments");
  temporaries.push_back(area);
  builder.CreateLifetimeStart(area, builder.getInt64(layout.getTypeAllocSize(type)));
  for (const Slot &slot : slots) {
    Value *argument = call.getArgOperand(slot.index);
    Value *place = builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), area, slot.offset);
    Align align = commonAlignment(most, slot.offset);
    if (slot.by_value) {
      builder.CreateMemCpy(place, align, argument, call.getParamAlign(slot.index),
                           layout.getTypeAllocSize(slot.by_value));
    } else {
      builder.CreateAlignedStore(argument, place, align);
    }
  }
  return area;
}

void Coroutine::lowerVaStart() {
  if (!variable_arguments) return;
  SmallVector<IntrinsicInst *, 2> starts;
  for (Instruction &instruction : instructions(function)) {
    auto *intrinsic = dyn_cast<IntrinsicInst>(&instruction);
    if (intrinsic && intrinsic->getIntrinsicID() == Intrinsic::vastart) starts.push_back(intrinsic);
  }
  for (IntrinsicInst *start : starts) {
    IRBuilder<> builder(start);
    Value *list = start->getArgOperand(0);
    auto field = [&](unsigned offset) {
      return builder.CreateConstInBoundsGEP1_64(builder.getInt8Ty(), list, offset);
    };
    builder.CreateStore(builder.getInt32(GENERAL_USED_UP), field(0));
    builder.CreateStore(builder.getInt32(VECTOR_USED_UP), field(4));
    builder.CreateStore(variable_arguments, field(8));
    builder.CreateStore(ConstantPointerNull::get(runtime.pointer()), field(16));
    start->eraseFromParent();
  }
}

} // namespace duality
