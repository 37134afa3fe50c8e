// Changes the module: coroutines for functions that tasks may run, rt_spawn for pthread_create, and
// the renamed functions.

#include "converter.h"

#include "coroutine.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace duality {
namespace {

// The most functions that a thread may reach. A thread that reaches more is no small handler of
// connections, and linking would take minutes.
constexpr size_t MOST = 1200;

// Primitives in which no thread waits for long: output, and locks that others hold for a moment.
const StringRef SOON_OVER[] = {
    "write",
    "writev",
    "send",
    "sendto",
    "sendmsg",
    "sendfile",
    "sendfile64",
    "pthread_mutex_lock",
    "pthread_rwlock_rdlock",
    "pthread_rwlock_wrlock",
    "pthread_spin_lock",
    "rt_once_begin",
    "pthread_exit",
    "pthread_testcancel",
};

// Libraries that start threads themselves, in functions that the pass does not see.
struct Starter {
  StringRef function, name, remedy;
};
const StringRef NO_REMEDY = "its library starts them: they keep their stacks";
const Starter STARTERS[] = {
    {"thrd_create", "thrd_create", "threads of C11 are not converted"},
    {"_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE",
     "std::thread", "libstdc++ starts them: link by `duality c++`"},
    {"_ZN5boost6thread21start_thread_noexceptEv", "boost::thread", NO_REMEDY},
    {"_ZN7QThread5startENS_8PriorityE", "QThread", NO_REMEDY},
    {"g_thread_new", "g_thread_new", NO_REMEDY},
    {"g_thread_try_new", "g_thread_try_new", NO_REMEDY},
    {"apr_thread_create", "apr_thread_create", NO_REMEDY},
    {"uv_thread_create", "uv_thread_create", NO_REMEDY},
    {"SDL_CreateThread", "SDL_CreateThread", NO_REMEDY},
};

} // namespace

Converter::Converter(Module &module, Analysis &analysis)
    : module(module), analysis(analysis), runtime(module) {
  findStarts();
}

void Converter::makeCoroutines() {
  for (Function *start : starts) coroutineOf(*start);
  while (!pending.empty()) {
    Function *original = pending.pop_back_val();
    Coroutine(*this, analysis, runtime, *original, *made[original]).build();
  }
}

void Converter::rewriteOriginals() {
  makeTable();
  rewriteSpawns();
  renameFunctions();
  moveLocals(module, runtime, *cast<GlobalVariable>(program()));
}

Function *Converter::coroutineOf(Function &original) {
  if (auto *known = made.find(&original); known != made.end()) return known->second;
  SmallVector<Type *, 8> parameters(original.getFunctionType()->params());
  if (original.isVarArg()) parameters.push_back(runtime.pointer());
  auto *type = FunctionType::get(runtime.returned(original.getReturnType()), parameters, false);
  auto *coroutine =
      Function::Create(type, GlobalValue::InternalLinkage, original.getName() + ".async", module);
  // The attributes are set now, and not when the coroutine is built: calls copy their attributes
  // from here.
  coroutine->setAttributes(
      attributesOfCoroutine(original, analysis.throwing().leaves(original)));
  made[&original] = coroutine;
  is_coroutine.insert(coroutine);
  pending.push_back(&original);
  return coroutine;
}

// The functions that may block and that a thread with this start could reach: through all
// functions, or through coroutines only.
SmallSetVector<Function *, 32> Converter::reach(Function &start, bool coroutines) const {
  SmallSetVector<Function *, 32> found;
  found.insert(&start);
  auto visit = [&](Function *function) {
    if (!function->isDeclaration() && (!coroutines || analysis.obstacle(*function).empty()))
      found.insert(function);
  };
  for (size_t next = 0; next < found.size(); next++) {
    for (Instruction &instruction : instructions(*found[next])) {
      auto *call = dyn_cast<CallBase>(&instruction);
      if (!call) continue;
      Call classified = analysis.classify(*call);
      if (classified.kind == Call::Direct) visit(classified.callee);
      if (classified.kind == Call::Indirect) for_each(classified.targets, visit);
    }
  }
  return found;
}

// The reason why a thread with this start spends its life on a side stack. Empty if it does not. If
// such a thread were converted, it would keep a stack and frames during each wait. A stack alone
// takes less.
std::string Converter::lifeAside(Function &start) const {
  std::string why;
  for (Function *function : reach(start, true)) {
    if (!spinningLoops(*function).empty()) return "";
    for (Instruction &instruction : instructions(*function)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      if (!call) continue;
      Call classified = analysis.classify(*call);
      if (classified.kind == Call::Primitive &&
          !is_contained(SOON_OVER, classified.primitive->name))
        return "";
      bool aside =
          classified.kind == Call::Library || classified.kind == Call::Callback ||
          (classified.kind == Call::Direct && !analysis.obstacle(*classified.callee).empty());
      if (aside && why.empty()) {
        why = "it waits in " + shown(classified.callee->getName()) + " alone (" + place(*call) +
              "), which needs a stack: its threads keep theirs";
      }
    }
  }
  return why;
}

// Conversion begins at the start routines of threads.
void Converter::findStarts() {
  auto look = [&](Function &start, const std::string &where) {
    std::string why = start.isDeclaration()     ? "it is not part of the program"
                      : !analysis.blocks(start) ? "it never blocks"
                                                : analysis.obstacle(start);
    if (size_t count = why.empty() ? reach(start, false).size() : 0; count > MOST) {
      why = ("it could reach " + Twine(count) +
             " functions that may block: its threads keep their stacks")
                .str();
    }
    if (why.empty()) {
      why = lifeAside(start);
      has_stacks |= !why.empty();
    }
    if (!why.empty()) kept.push_back({where, shown(start.getName()), why});
    else if (!is_contained(starts, &start)) starts.push_back(&start);
  };
  for (Function &function : module) {
    for (Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      Function *callee = call ? calledFunction(*call) : nullptr;
      if (!callee) continue;
      const Primitive *known = primitive(*callee);
      auto *starter = find_if(STARTERS, [&](const Starter &starter) {
        return callee->isDeclaration() && starter.function == callee->getName();
      });
      if (starter != std::end(STARTERS))
        kept.push_back({place(*call), starter->name.str(), starter->remedy.str()});
      if (!known || known->role != Role::Spawn || call->arg_size() != 4) continue;
      auto *start = dyn_cast<Function>(call->getArgOperand(2)->stripPointerCastsAndAliases());
      if (start) {
        look(*start, place(*call));
      } else {
        for (Function *possible : analysis.starts()) {
          if (analysis.blocks(*possible)) look(*possible, place(*call));
        }
      }
    }
  }
}

// The coroutine of a start routine, or null. The pass knows it, or the code finds it by comparing
// at run time.
Value *Converter::startRoutine(IRBuilder<> &builder, Value *start) {
  auto *null = ConstantPointerNull::get(runtime.pointer());
  if (auto *known = dyn_cast<Function>(start->stripPointerCastsAndAliases())) {
    auto *coroutine = made.find(known);
    return coroutine == made.end() ? static_cast<Value *>(null) : coroutine->second;
  }
  Value *found = null;
  for (Function *possible : analysis.starts()) {
    if (auto *coroutine = made.find(possible); coroutine != made.end()) {
      found = builder.CreateSelect(builder.CreateICmpEQ(start, possible), coroutine->second, found);
    }
  }
  return found;
}

Constant *Converter::program() {
  if (program_variable) return program_variable;
  auto *type = StructType::get(runtime.integer(), runtime.integer(), runtime.size(), runtime.size(),
                               runtime.pointer());
  auto *none = ConstantInt::get(runtime.size(), 0);
  unsigned reads =
      (readsFloatingFlags(module) ? READS_FLAGS : 0) |
      (readsThreadTimes(module) ? READS_TIMES : 0) | (cxxPersonality(module) ? THROWS : 0) |
      (analysis.throwing().endsThreads() ? UNWINDS : 0);
  auto *flags = ConstantInt::get(runtime.integer(), reads);
  auto *initial =
      ConstantStruct::get(type, {ConstantInt::get(runtime.integer(), VERSION), flags, none, none,
                                 ConstantPointerNull::get(runtime.pointer())});
  program_variable = new GlobalVariable(module, type, true, GlobalValue::InternalLinkage, initial,
                                        "duality.program");
  return program_variable;
}

// rt_spawn replaces pthread_create in originals and coroutines alike. The coroutines already have
// clones of the calls.
void Converter::rewriteSpawns() {
  SmallVector<CallBase *, 16> calls;
  for (Function &function : module) {
    for (Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      Function *callee = call ? calledFunction(*call) : nullptr;
      const Primitive *known = callee ? primitive(*callee) : nullptr;
      if (known && known->role == Role::Spawn && call->arg_size() == 4) calls.push_back(call);
    }
  }
  Type *ptr = runtime.pointer();
  FunctionCallee spawn =
      runtime.function("rt_spawn", runtime.integer(), {ptr, ptr, ptr, ptr, ptr, ptr});
  for (CallBase *call : calls) {
    IRBuilder<> builder(call);
    SmallVector<Value *, 6> arguments(call->args());
    arguments.push_back(startRoutine(builder, arguments[2]));
    // A function without other callers need not stay.
    if (isa<Function>(arguments.back())) arguments[2] = ConstantPointerNull::get(runtime.pointer());
    arguments.push_back(program());
    CallInst *spawned = builder.CreateCall(spawn, arguments);
    call->replaceAllUsesWith(spawned);
    if (auto *invoke = dyn_cast<InvokeInst>(call)) {
      // rt_spawn throws nothing.
      BranchInst::Create(invoke->getNormalDest(), invoke->getIterator());
      invoke->getUnwindDest()->removePredecessor(invoke->getParent());
    }
    call->eraseFromParent();
  }
}

// Renames functions that must know tasks. In coroutines, calls of primitives are already lowered.
// So the other calls that need a name for originals are all in originals.
void Converter::renameFunctions() {
  SmallVector<std::pair<Function *, StringRef>, 16> found;
  for (Function &function : module) {
    const Primitive *known = primitive(function);
    if (known && known->role != Role::Spawn && !known->original.empty())
      found.push_back({&function, known->original});
  }
  for (auto &[function, name] : found) {
    FunctionCallee other =
        module.getOrInsertFunction(name, function->getFunctionType(), function->getAttributes());
    function->replaceAllUsesWith(other.getCallee());
  }
}

} // namespace duality
