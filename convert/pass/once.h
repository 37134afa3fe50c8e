// pthread_once as a function of the program.
#pragma once

#include "llvm/IR/Module.h"

namespace duality {

// Adds what stands for pthread_once in converted code; null where the program does not call it.
llvm::Function *makeOnce(llvm::Module &module);

} // namespace duality
