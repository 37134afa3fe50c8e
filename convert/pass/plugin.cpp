// The pass as a plugin of LLVM 19: `ld.lld --load-pass-plugin=libduality_convert.so`. The pass runs
// at the start of full link-time optimisation. At that time the whole program is one module, and
// each of its files has been optimised.

#include "coroutine.h"
#include "once.h"
#include "report.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/Transforms/Coroutines/CoroCleanup.h"
#include "llvm/Transforms/Coroutines/CoroEarly.h"
#include "llvm/Transforms/Coroutines/CoroSplit.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"

#include <cstdlib>
#include <memory>

using namespace llvm;

namespace {

// The driver passes options by the environment, because lld reads its own options before it loads
// the plugin.
constexpr const char *REPORT = "DUALITY_CONVERT_REPORT";
constexpr const char *GRAPH = "DUALITY_CONVERT_GRAPH";
constexpr const char *NO_RUNTIME = "DUALITY_CONVERT_NO_RUNTIME";
constexpr const char *PROGRAM = "DUALITY_CONVERT_PROGRAM";

// The state that the passes of one link share.
struct Link {
  bool converted = false;
  duality::Report report;
};

void writeTo(const char *name, function_ref<void(raw_ostream &)> write, LLVMContext &context) {
  std::error_code error;
  if (StringRef(name) == "-") return write(errs());
  raw_fd_ostream file(name, error);
  if (error) return context.emitError(Twine("duality cc: ") + name + ": " + error.message());
  write(file);
}

struct ConvertPass : PassInfoMixin<ConvertPass> {
  std::shared_ptr<Link> link;
  explicit ConvertPass(std::shared_ptr<Link> link) : link(std::move(link)) {}

  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    duality::Analysis analysis(module, duality::makeOnce(module));
    duality::Converter converter(module, analysis);
    const char *graph = std::getenv(GRAPH);
    StringSet<> told;
    for (const duality::SideCall &kept : converter.pthreads()) {
      std::string what = "threads of " + kept.what + " are not converted: " + kept.why;
      if (told.insert(what).second) warn(kept.where, what);
    }
    if (!converter.needsEngine()) {
      explainNone(module, analysis, converter);
      return PreservedAnalyses::none();
    }
    if (const char *why = std::getenv(NO_RUNTIME)) {
      module.getContext().emitError(
          Twine("duality cc: threads of this program were to be converted, but ") + why);
      return PreservedAnalyses::none();
    }
    if (std::getenv(REPORT)) {
      module.getContext().setDiscardValueNames(false);
      for (Function &function : module) duality::nameVariables(function);
      link->report.explain(module, analysis);
    }
    if (graph)
      writeTo(
          graph, [&](raw_ostream &stream) { duality::writeGraph(stream, module, analysis); },
          module.getContext());
    for (const duality::Hazard &hazard : duality::findBlindSpots(module))
      warn(hazard.where, hazard.what);
    converter.makeCoroutines();
    for (const duality::Hazard &hazard : duality::findSharedState(converter))
      warn(hazard.where, hazard.what);
    for (const duality::Hazard &hazard : duality::findExceptional(converter, analysis))
      warn(hazard.where, hazard.what);
    converter.rewriteOriginals();
    // With a report, the driver prints this line, and more.
    if (const char *program = std::getenv(PROGRAM); program && !std::getenv(REPORT)) {
      auto [blocking, converted] = duality::counts(analysis, converter);
      errs() << "duality cc: " << program << ": " << converted << " of " << blocking
             << " functions that may block converted\n";
    }
    link->converted = true;
    link->report.conversion(analysis, converter);
    return PreservedAnalyses::none();
  }
  static void warn(const std::string &where, const std::string &what) {
    errs() << "duality cc: warning: " << where << ": " << what << "\n";
  }
  // Explains why a program with threads has no converted thread.
  void explainNone(Module &module, duality::Analysis &analysis, duality::Converter &converter) {
    if (converter.pthreads().empty() || !std::getenv(REPORT)) return;
    link->report.explain(module, analysis);
    link->report.conversion(analysis, converter);
    link->converted = true;
  }
  static bool isRequired() { return true; }
};

struct SettlePass : PassInfoMixin<SettlePass> {
  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    duality::settleLandingPads(module);
    return PreservedAnalyses::none();
  }
  static bool isRequired() { return true; }
};

struct ReportPass : PassInfoMixin<ReportPass> {
  std::shared_ptr<Link> link;
  explicit ReportPass(std::shared_ptr<Link> link) : link(std::move(link)) {}

  PreservedAnalyses run(Module &module, ModuleAnalysisManager &) {
    const char *report = std::getenv(REPORT);
    if (!report || !link->converted) return PreservedAnalyses::all();
    link->report.frames(module);
    writeTo(report, [&](raw_ostream &stream) { link->report.write(stream); }, module.getContext());
    return PreservedAnalyses::all();
  }
  static bool isRequired() { return true; }
};

void addPasses(ModulePassManager &passes, OptimizationLevel level) {
  auto link = std::make_shared<Link>();
  passes.addPass(ConvertPass(link));
  passes.addPass(CoroEarlyPass());
  if (level != OptimizationLevel::O0)
    passes.addPass(createModuleToFunctionPassAdaptor(SimplifyCFGPass()));
  passes.addPass(
      createModuleToPostOrderCGSCCPassAdaptor(CoroSplitPass(level != OptimizationLevel::O0)));
  passes.addPass(SettlePass());
  passes.addPass(ReportPass(link));
  passes.addPass(CoroCleanupPass());
  passes.addPass(GlobalDCEPass());
}

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "duality-convert", "0.1", [](PassBuilder &builder) {
            builder.registerFullLinkTimeOptimizationEarlyEPCallback(addPasses);
          }};
}
