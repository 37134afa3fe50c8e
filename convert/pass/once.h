// pthread_once as a function of the program.
#pragma once

#include "llvm/IR/Module.h"

namespace duality {

// Adds the replacement of pthread_once for converted code. Null if the program does not call it.
llvm::Function *makeOnce(llvm::Module &module);

} // namespace duality
