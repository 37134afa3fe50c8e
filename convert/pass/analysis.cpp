// The fixpoint: a function that calls a function that may block may block.
//
// Direct calls are edges of the graph. A call by a pointer may lead to each function with a taken
// address and with parameters that fit. If a library function gets the address of a function that
// may block, the analysis assumes that it calls that function.
//
// C++ calls no function as a function of another type. In C++ a call by a pointer leads to
// functions of exactly its type. A virtual call leads to functions at the same place of some
// class's table (slots.cpp).

#include "analysis.h"
#include "cleanups.h"
#include "runtime.h"

#include "llvm/BinaryFormat/Dwarf.h"
#include "llvm/Demangle/Demangle.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

#include <deque>

using namespace llvm;

namespace duality {
namespace {

// Integers and pointers are passed in the same registers, so programs can call a function of one as
// a function of the other.
bool passedAlike(Type *one, Type *other) {
  if (one == other) return true;
  auto word = [](Type *type) {
    return type->isPointerTy() || (type->isIntegerTy() && type->getIntegerBitWidth() <= 64);
  };
  return word(one) && word(other);
}

bool takesArguments(const CallBase &call, const Function &function) {
  FunctionType *type = function.getFunctionType();
  unsigned parameters = type->getNumParams();
  if (call.arg_size() < parameters || (call.arg_size() > parameters && !type->isVarArg()))
    return false;
  for (unsigned index = 0; index < parameters; index++) {
    if (!passedAlike(call.getArgOperand(index)->getType(), type->getParamType(index))) return false;
  }
  return true;
}

bool fits(const Function &function, unsigned parameters) {
  return function.arg_size() == parameters && !function.isVarArg();
}

} // namespace

bool isHarmless(const Use &use) {
  const User *user = use.getUser();
  if (auto *call = dyn_cast<CallBase>(user)) {
    if (call->isCallee(&use)) return true;
    const Function *callee = calledFunction(*call);
    const Primitive *known = callee ? primitive(*callee) : nullptr;
    return known && known->role == Role::Spawn && call->getArgOperandNo(&use) == 2;
  }
  if (auto *alias = dyn_cast<GlobalAlias>(user)) {
    return all_of(alias->uses(), isHarmless);
  }
  if (auto *array = dyn_cast<ConstantArray>(user)) {
    // llvm.used and llvm.compiler.used only keep a symbol; no call goes through them.
    return all_of(array->users(), [](const User *owner) {
      auto *variable = dyn_cast<GlobalVariable>(owner);
      return variable && variable->getSection() == "llvm.metadata";
    });
  }
  return isa<BlockAddress>(user);
}

bool fits(const CallBase &call, const Function &function) {
  Type *wanted = call.getType(), *given = function.getReturnType();
  return takesArguments(call, function) &&
         (wanted->isVoidTy() || given->isVoidTy() || passedAlike(wanted, given));
}

Function *calledFunction(const CallBase &call) {
  return dyn_cast<Function>(call.getCalledOperand()->stripPointerCastsAndAliases());
}

namespace {

// The name is as the compiler got it: relative to the compiler's directory, or absolute.
std::string lineOf(const DIFile *file, unsigned line, const DICompileUnit *unit) {
  bool relative =
      !unit || file->getDirectory().empty() || file->getDirectory() == unit->getDirectory();
  std::string name = relative ? file->getFilename().str()
                              : (file->getDirectory() + "/" + file->getFilename()).str();
  return name + ":" + std::to_string(line);
}

} // namespace

std::string place(const Instruction &instruction) {
  const DILocation *location = instruction.getDebugLoc();
  if (!location) return instruction.getFunction() ? place(*instruction.getFunction()) : "?";
  const DISubprogram *program = location->getScope()->getSubprogram();
  std::string text =
      lineOf(location->getFile(), location->getLine(), program ? program->getUnit() : nullptr);
  // The place in the source, even if the compiler has moved the call.
  if (location->getInlinedAt() && program) text += " in " + program->getName().str();
  return text;
}

std::string place(const Function &function) {
  const DISubprogram *program = function.getSubprogram();
  return program ? lineOf(program->getFile(), program->getLine(), program->getUnit()) : "?";
}

std::string shown(StringRef name) { return name.starts_with("_Z") ? demangle(name) : name.str(); }

void nameVariables(Function &function) {
  auto name = [](Value *value, const DILocalVariable *variable) {
    if (value && (isa<Instruction>(value) || isa<Argument>(value)) && !value->hasName())
      value->setName(variable->getName() + ".");
  };
  for (Instruction &instruction : instructions(function)) {
    for (DbgVariableRecord &record : filterDbgVars(instruction.getDbgRecordRange())) {
      if (record.getNumVariableLocationOps() == 1)
        name(record.getVariableLocationOp(0), record.getVariable());
    }
    if (auto *intrinsic = dyn_cast<DbgVariableIntrinsic>(&instruction)) {
      if (intrinsic->getNumVariableLocationOps() == 1)
        name(intrinsic->getVariableLocationOp(0), intrinsic->getVariable());
    }
  }
}

Analysis::Analysis(Module &module, Function *once)
    : module(module), once_function(once), is_cxx(cxxPersonality(module) != nullptr) {
  findAddressTaken();
  if (is_cxx) findSlots();
  spread();
  if (is_cxx) findBlockingInitialisers();
  may_throw.emplace(module, *this);
}

void Analysis::findAddressTaken() {
  for (Function &function : module) {
    if (function.isIntrinsic()) continue;
    if (!all_of(function.uses(), isHarmless)) address_taken.push_back(&function);
  }
}

bool Analysis::blocks(const Function &function) const {
  if (!function.isDeclaration())
    return reasons.find(const_cast<Function *>(&function)) != reasons.end();
  const Primitive *known = primitive(function);
  return known && (known->role == Role::Waits || known->role == Role::Library);
}

const SmallVector<Function *, 4> &Analysis::candidates(const CallBase &call) const {
  FunctionType *type = call.getFunctionType();
  int64_t slot = is_cxx ? slotOf(call) : ANY_SLOT;
  if (!is_cxx) {
    SmallVector<Type *, 8> arguments;
    for (Value *argument : call.args()) arguments.push_back(argument->getType());
    type = FunctionType::get(Type::getVoidTy(module.getContext()), arguments, false);
  }
  auto [known, is_new] = known_candidates.try_emplace({type, slot});
  SmallVector<Function *, 4> &found = known->second;
  if (!is_new) return found;
  for (Function *function : address_taken) {
    bool fits = is_cxx ? isAt(*function, slot) && function->getFunctionType() == type
                       // The result may be of another type. Then the function is called on a side
                       // stack, as the program calls it.
                       : takesArguments(call, *function);
    if (fits) found.push_back(function);
  }
  return found;
}

SmallVector<Function *, 4> Analysis::starts() const {
  SmallVector<Function *, 4> found;
  for (Function *function : address_taken) {
    if (!function->isDeclaration() && fits(*function, 1) && !slots.count(function))
      found.push_back(function);
  }
  return found;
}

// The functions that a library function may call. The library function is known to call them, or
// gets their addresses as arguments.
SmallVector<Function *, 4> Analysis::given(const CallBase &call, const Function &callee) const {
  SmallVector<Function *, 4> found;
  if (!callee.isDeclaration() || callee.isIntrinsic() || keepsCallback(callee)) return found;
  for (const Use &argument : call.args()) {
    auto *function =
        const_cast<Function *>(dyn_cast<Function>(argument->stripPointerCastsAndAliases()));
    if (function && !is_contained(found, function)) found.push_back(function);
  }
  for (const Callback &known : callbacks(callee)) {
    if (known.argument >= call.arg_size() ||
        isa<Constant>(call.getArgOperand(known.argument)->stripPointerCasts()))
      continue;
    for (Function *function : address_taken) {
      if (fits(*function, known.parameters) && !is_contained(found, function))
        found.push_back(function);
    }
  }
  return found;
}

Call Analysis::classify(const CallBase &call) const {
  Call result;
  if (isa<IntrinsicInst>(call) || call.isInlineAsm()) return result;
  result.callee = calledFunction(call);
  if (!result.callee) {
    for (Function *function : candidates(call)) {
      if (blocks(*function)) result.targets.push_back(function);
    }
    if (!result.targets.empty()) result.kind = Call::Indirect;
    return result;
  }
  if (!result.callee->isDeclaration()) {
    if (blocks(*result.callee)) result.kind = Call::Direct;
    return result;
  }
  result.primitive = implicit(call, *result.callee);
  if (!result.primitive) result.primitive = primitive(*result.callee);
  if (result.primitive && result.primitive->role == Role::Waits) {
    result.kind = Call::Primitive;
  } else if (result.primitive && result.primitive->role == Role::Library) {
    result.kind = Call::Library;
  } else if (result.primitive && result.primitive->role == Role::Once) {
    result.kind = Call::Direct;
    result.callee = once_function;
  } else if (!result.primitive) {
    for (Function *function : given(call, *result.callee)) {
      if (blocks(*function)) result.targets.push_back(function);
    }
    if (!result.targets.empty()) result.kind = Call::Callback;
  }
  return result;
}

// The search is breadth first, so that the reason for a function is a shortest chain.
void Analysis::spread() {
  struct Edge {
    Function *caller;
    Reason reason;
  };
  DenseMap<Function *, SmallVector<Edge, 2>> callers;
  std::deque<Function *> found;
  auto add = [&](Function *caller, Reason reason) {
    if (reasons.insert({caller, reason}).second) found.push_back(caller);
  };
  for (Function &function : module) {
    SmallVector<Instruction *, 2> loops = spinningLoops(function);
    if (!loops.empty()) add(&function, {loops.front(), Call::Plain, nullptr});
    for (Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      if (!call) continue;
      // No function of the program blocks yet, so only declared functions decide this result.
      Call classified = classify(*call);
      if (classified.kind == Call::Primitive || classified.kind == Call::Library) {
        add(&function, {call, classified.kind, classified.callee});
      } else if (classified.kind == Call::Indirect) {
        add(&function, {call, classified.kind, classified.targets.front()});
      }
      if (isa<IntrinsicInst>(call) || call->isInlineAsm()) continue;
      if (!classified.callee) {
        for (Function *target : candidates(*call))
          callers[target].push_back({&function, {call, Call::Indirect, target}});
      } else if (classified.kind == Call::Direct || !classified.callee->isDeclaration()) {
        callers[classified.callee].push_back({&function, {call, Call::Direct, classified.callee}});
      } else if (classified.primitive && classified.primitive->role == Role::Once) {
        callers[once_function].push_back({&function, {call, Call::Direct, once_function}});
      } else if (!classified.primitive) {
        for (Function *target : given(*call, *classified.callee))
          callers[target].push_back({&function, {call, Call::Callback, target}});
      }
    }
  }
  while (!found.empty()) {
    Function *function = found.front();
    found.pop_front();
    for (const Edge &edge : callers[function]) add(edge.caller, edge.reason);
  }
}

const std::string &Analysis::obstacle(const Function &function) const {
  auto known = obstacles.find(&function);
  if (known == obstacles.end())
    known = obstacles.try_emplace(&function, findObstacle(function)).first;
  return known->second;
}

std::string Analysis::findObstacle(const Function &function) const {
  if (function.hasFnAttribute(Attribute::Naked))
    return "it is naked assembly (" + place(function) + ")";
  if (function.isPresplitCoroutine())
    return "it is a coroutine of its own (" + place(function) + ")";
  if (function.isVarArg() && module.getTargetTriple().find("x86_64") != 0) {
    return "it has variable arguments, which are converted on x86_64 only (" + place(function) +
           ")";
  }
  if (!function.getReturnType()->isVoidTy() &&
      module.getDataLayout().getTypeAllocSize(function.getReturnType()) > RETURN_REGISTER) {
    return "its result is larger than the return register (" + place(function) + ")";
  }
  for (const Instruction &instruction : instructions(function)) {
    if ((isa<InvokeInst>(instruction) || isa<LandingPadInst>(instruction)) &&
        !hasCxxPersonality(function)) {
      return "it catches exceptions or has clean-up for them (" + place(instruction) + ")";
    }
    if (isa<IndirectBrInst>(instruction))
      return "it has computed jumps (" + place(instruction) + ")";
    if (isa<CallBrInst>(instruction))
      return "it has assembly that jumps (" + place(instruction) + ")";
    if (auto *call = dyn_cast<CallInst>(&instruction)) {
      if (call->hasFnAttr(Attribute::ReturnsTwice)) {
        // In C, pthread_cleanup_push is a call of __sigsetjmp.
        if (findCleanups(const_cast<Function &>(function))) continue;
        const Function *callee = calledFunction(*call);
        StringRef name = callee ? callee->getName() : "setjmp";
        return ("it calls " + name + " (" + place(instruction) + ")").str();
      }
      if (call->isMustTailCall())
        return "it has a mandatory tail call (" + place(instruction) + ")";
    }
  }
  return "";
}

} // namespace duality
