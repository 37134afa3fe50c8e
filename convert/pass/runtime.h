// The runtime as the pass sees it: the functions and variables of contract/duality_convert.h,
// declared at their first use.
#pragma once

#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

namespace duality {

// The place of the parent's handle in a handle: after `resume` and `destroy`.
constexpr unsigned PARENT = 16;
// Bits of rt_program: RT_READS_FLAGS, RT_READS_TIMES, RT_THROWS and RT_UNWINDS.
constexpr unsigned READS_FLAGS = 1, READS_TIMES = 2, THROWS = 4, UNWINDS = 8;
// The bytes of the return register.
constexpr unsigned RETURN_REGISTER = 64;
// The values of RT_VERSION and RT_FRUITLESS.
constexpr unsigned VERSION = 2, FRUITLESS = 32;

class Runtime {
public:
  explicit Runtime(llvm::Module &module) : module(module), context(module.getContext()) {}

  llvm::PointerType *pointer() const { return llvm::PointerType::getUnqual(context); }
  llvm::Type *nothing() const { return llvm::Type::getVoidTy(context); }
  llvm::IntegerType *size() const { return llvm::Type::getInt64Ty(context); }
  llvm::IntegerType *integer() const { return llvm::Type::getInt32Ty(context); }

  llvm::FunctionCallee function(llvm::StringRef name, llvm::Type *result,
                                llvm::ArrayRef<llvm::Type *> parameters) {
    return module.getOrInsertFunction(name, llvm::FunctionType::get(result, parameters, false));
  }
  // The return type of a call that yields `result`: {handle, result}, or the handle alone.
  llvm::Type *returned(llvm::Type *result) const {
    return result->isVoidTy() ? static_cast<llvm::Type *>(pointer())
                              : llvm::StructType::get(pointer(), result);
  }
  // The address of a thread-local variable of the runtime, for the code at the builder. A coroutine
  // may continue on another thread, so no code keeps the address across a suspension.
  llvm::Value *local(llvm::IRBuilder<> &builder, llvm::StringRef name, llvm::Type *type) {
    llvm::GlobalVariable *variable = module.getNamedGlobal(name);
    if (!variable) {
      variable =
          new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::ExternalLinkage, nullptr,
                                   name, nullptr, llvm::GlobalValue::InitialExecTLSModel);
    }
    return builder.CreateThreadLocalAddress(variable);
  }
  llvm::Value *returnRegister(llvm::IRBuilder<> &builder) {
    return local(builder, "rt_ret",
                 llvm::ArrayType::get(llvm::Type::getInt8Ty(context), RETURN_REGISTER));
  }
  llvm::Value *next(llvm::IRBuilder<> &builder) { return local(builder, "rt_next", pointer()); }

private:
  llvm::Module &module;
  llvm::LLVMContext &context;
};

} // namespace duality
