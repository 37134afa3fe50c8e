// Warnings about coroutines of the program, landing pads of another language, and handlers that
// would keep the end of a thread.
//
// A `catch (...)` sees pthread_exit and a cancellation as an exception that no type matches. The
// program must throw it again. The pass follows the exception from its landing pad:
//
// ```text
//   a branch on the type     is not taken; abi::__forced_unwind is the type that matches
//   __cxa_begin_catch        a handler takes it
//   __cxa_end_catch          the handler has ended without another throw: it keeps the exception
// ```

#include "report.h"

#include "llvm/IR/CFG.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;

namespace duality {
namespace {

constexpr const char *FORCED = "_ZTIN10__cxxabiv115__forced_unwindE";

// Why a function waits on a side stack, if the program can avoid it. Empty: for another reason.
std::string avoidable(const Function &function, StringRef &kind) {
  std::string name = shown(function.getName());
  for (const Instruction &instruction : instructions(function)) {
    auto *call = dyn_cast<CallInst>(&instruction);
    if (call && call->isMustTailCall()) {
      kind = "transfer";
      return name + " resumes another coroutine by a jump (symmetric transfer), so it waits on a "
                    "side stack: let await_suspend return void or bool, or wait outside";
    }
    if (isa<LandingPadInst>(instruction) && !hasCxxPersonality(function)) {
      kind = "personality";
      return name + " has clean-up for exceptions of another language than C++, so it waits on a "
                    "side stack: compile C without -fexceptions";
    }
  }
  return "";
}

// The type that a branch compares the exception with. Null: it is another branch.
const Value *comparedType(const BranchInst &branch) {
  if (!branch.isConditional()) return nullptr;
  auto *compare = dyn_cast<ICmpInst>(branch.getCondition());
  if (!compare || !compare->isEquality()) return nullptr;
  for (const Value *operand : compare->operands()) {
    auto *type = dyn_cast<IntrinsicInst>(operand);
    if (type && type->getIntrinsicID() == Intrinsic::eh_typeid_for)
      return type->getArgOperand(0)->stripPointerCasts();
  }
  return nullptr;
}

// Where the end of a thread goes on from a block that handles it.
void follow(const BasicBlock &block, SmallVectorImpl<const BasicBlock *> &next) {
  const Instruction *last = block.getTerminator();
  if (auto *branch = dyn_cast<BranchInst>(last)) {
    if (const Value *type = comparedType(*branch)) {
      bool matches = type->getName() == FORCED;
      bool first_if_equal =
          cast<ICmpInst>(branch->getCondition())->getPredicate() == CmpInst::ICMP_EQ;
      next.push_back(branch->getSuccessor(matches == first_if_equal ? 0 : 1));
      return;
    }
  }
  // Another exception on its way is no end of this handler.
  if (auto *invoke = dyn_cast<InvokeInst>(last)) next.push_back(invoke->getNormalDest());
  else append_range(next, successors(&block));
}

bool catchesAll(const LandingPadInst &pad) {
  for (unsigned index = 0; index < pad.getNumClauses(); index++) {
    if (pad.isCatch(index) && isa<ConstantPointerNull>(pad.getClause(index))) return true;
  }
  return false;
}

// The handler that keeps what arrives at a landing pad. Null: none does.
const Instruction *keeper(const LandingPadInst &pad) {
  if (!catchesAll(pad)) return nullptr;
  SmallVector<std::pair<const BasicBlock *, const Instruction *>, 8> pending = {
      {pad.getParent(), nullptr}};
  SmallPtrSet<const BasicBlock *, 16> seen = {pad.getParent()};
  while (!pending.empty()) {
    auto [block, taken] = pending.pop_back_val();
    for (const Instruction &instruction : *block) {
      auto *call = dyn_cast<CallBase>(&instruction);
      const Function *callee = call ? calledFunction(*call) : nullptr;
      if (!callee) continue;
      if (!taken && callee->getName() == "__cxa_begin_catch") taken = call;
      else if (taken && callee->getName() == "__cxa_end_catch") return taken;
    }
    SmallVector<const BasicBlock *, 4> next;
    follow(*block, next);
    for (const BasicBlock *successor : next) {
      if (seen.insert(successor).second) pending.push_back({successor, taken});
    }
  }
  return nullptr;
}

} // namespace

std::vector<Hazard> findExceptional(const Converter &converter, const Analysis &analysis) {
  Kinds kinds;
  SmallPtrSet<const Function *, 16> seen;
  auto look = [&](const Function *function) {
    if (function->isDeclaration() || analysis.obstacle(*function).empty() ||
        !seen.insert(function).second)
      return;
    StringRef kind;
    std::string what = avoidable(*function, kind);
    if (!what.empty()) kinds.add(kind, {place(*function), what});
  };
  SmallPtrSet<const Instruction *, 8> keepers;
  for (auto &[original, coroutine] : converter.coroutines()) {
    for (Instruction &instruction : instructions(*original)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      if (!call) continue;
      Call classified = analysis.classify(*call);
      if (classified.kind == Call::Direct) look(classified.callee);
      if (classified.kind == Call::Indirect) for_each(classified.targets, look);
      auto *invoke = dyn_cast<InvokeInst>(call);
      if (!invoke || classified.kind == Call::Plain || !analysis.throwing().endsThreads() ||
          !hasCxxPersonality(*original))
        continue;
      const Instruction *keeps = keeper(*invoke->getLandingPadInst());
      if (keeps && keepers.insert(keeps).second) {
        kinds.add("catch", {place(*keeps),
                            "a catch (...) would keep pthread_exit and a cancellation, which ends "
                            "the program: add `catch (abi::__forced_unwind &) { throw; }`, of "
                            "<cxxabi.h>"});
      }
    }
  }
  return kinds.hazards();
}

} // namespace duality
