// The pass as a plugin of LLVM 19: `ld.lld --load-pass-plugin=libduality_convert.so`, at the start of full link-time
// optimisation, when the whole program is one module and has been optimised file by file.

#include "converter.h"

#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Transforms/Coroutines/CoroCleanup.h"
#include "llvm/Transforms/Coroutines/CoroEarly.h"
#include "llvm/Transforms/Coroutines/CoroSplit.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

using namespace llvm;

namespace {

struct ConvertPass : PassInfoMixin<ConvertPass> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    duality::Analysis analysis(module);
    duality::Converter converter(module, analysis);
    converter.run();
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }
};

void addPasses(ModulePassManager &passes, OptimizationLevel level) {
  passes.addPass(ConvertPass());
  passes.addPass(CoroEarlyPass());
  if (level != OptimizationLevel::O0) passes.addPass(createModuleToFunctionPassAdaptor(SimplifyCFGPass()));
  passes.addPass(createModuleToPostOrderCGSCCPassAdaptor(CoroSplitPass(level != OptimizationLevel::O0)));
  passes.addPass(CoroCleanupPass());
  passes.addPass(GlobalDCEPass());
}

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "duality-convert", "0.1", [](PassBuilder &builder) {
            builder.registerFullLinkTimeOptimizationEarlyEPCallback(addPasses);
          }};
}
