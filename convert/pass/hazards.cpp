// Warnings about the original program: code that is right with threads, but may surprise in an
// event-driven program.

#include "report.h"

#include "llvm/ADT/SmallSet.h"
#include "llvm/Analysis/CFG.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

#include <map>
#include <set>

using namespace llvm;

namespace duality {
namespace {

const StringRef LOCKS[] = {"pthread_mutex_lock", "pthread_rwlock_rdlock", "pthread_rwlock_wrlock",
                           "pthread_spin_lock"};
const StringRef UNLOCKS[] = {"pthread_mutex_unlock", "pthread_rwlock_unlock",
                             "pthread_spin_unlock"};

// The functions in which libc++ waits, by their names in its only ABI.
const StringRef WAITS_OF_LIBCXX[] = {
    "_ZNSt3__15mutex4lockEv",
    "_ZNSt3__115recursive_mutex4lockEv",
    "_ZNSt3__118condition_variable4waitERNS_11unique_lockINS_5mutexEEE",
    "_ZNSt3__16thread4joinEv",
    "_ZNSt3__111this_thread9sleep_forERKNS_6chrono8durationIxNS_5ratioILl1ELl1000000000EEEEE",
};

StringRef calleeName(const CallBase &call) {
  const Function *callee = calledFunction(call);
  return callee ? callee->getName() : "";
}

bool isLock(const CallBase &call) { return is_contained(LOCKS, calleeName(call)); }
bool isUnlock(const CallBase &call) { return is_contained(UNLOCKS, calleeName(call)); }

// The search assumes that two loads of one variable give the same lock.
const Value *lockOf(const CallBase &call) {
  const Value *lock = call.getArgOperand(0)->stripPointerCasts();
  if (auto *load = dyn_cast<LoadInst>(lock)) return load->getPointerOperand();
  return lock;
}

std::string nameOf(const Value *value) {
  StringRef name = value->stripInBoundsOffsets()->getName();
  name = name.take_front(name.find('.'));
  return name.empty() ? "a lock" : ("`" + name + "`").str();
}

// Held locks, each with the calls that may have taken it.
using Held = std::map<const Value *, std::set<const CallBase *>>;

class Flow {
public:
  Flow(Function &function, const Analysis &analysis, std::vector<Hazard> &hazards)
      : function(function), analysis(analysis), hazards(hazards) {}

  void look() {
    flow();
    for (BasicBlock &block : function) {
      Held held = before[&block];
      for (Instruction &instruction : block) {
        if (auto *call = dyn_cast<CallBase>(&instruction)) {
          inspect(*call, held);
          StringRef kind;
          if (std::string what = stateOfTheThread(*call, kind); !what.empty())
            report({place(*call), what});
        }
        at[&instruction] = held;
        pass(instruction, held);
      }
    }
    findLostUpdates();
  }

private:
  // Finds the locks that are held at the start of each block on every way to it. If one way were
  // enough, a lock that is taken and released under the same condition would be reported wherever
  // both ways meet.
  void flow() {
    SmallVector<BasicBlock *, 16> pending = {&function.getEntryBlock()};
    before[pending.front()] = {};
    while (!pending.empty()) {
      BasicBlock *block = pending.pop_back_val();
      Held held = before[block];
      for (Instruction &instruction : *block) pass(instruction, held);
      for (BasicBlock *next : successors(block)) {
        Held there = held;
        dropFailed(*block, *next, there);
        auto known = before.find(next);
        if (known != before.end()) {
          Held both;
          for (auto &[lock, sites] : known->second) {
            auto also = there.find(lock);
            if (also == there.end()) continue;
            both[lock] = sites;
            both[lock].insert(also->second.begin(), also->second.end());
          }
          there = both;
          if (there == known->second) continue;
        }
        before[next] = there;
        pending.push_back(next);
      }
    }
  }

  // After `if (pthread_mutex_lock(&m) == 0)`, the lock is not held on the other way.
  static void dropFailed(BasicBlock &block, BasicBlock &next, Held &held) {
    auto *branch = dyn_cast<BranchInst>(block.getTerminator());
    auto *compare =
        branch && branch->isConditional() ? dyn_cast<ICmpInst>(branch->getCondition()) : nullptr;
    auto *call = compare ? dyn_cast<CallBase>(compare->getOperand(0)) : nullptr;
    auto *zero = compare ? dyn_cast<ConstantInt>(compare->getOperand(1)) : nullptr;
    if (!call || !isLock(*call) || !zero || !zero->isZero() || !compare->isEquality()) return;
    BasicBlock *taken = branch->getSuccessor(compare->getPredicate() == CmpInst::ICMP_EQ ? 0 : 1);
    if (&next != taken) held.erase(lockOf(*call));
  }

  void pass(Instruction &instruction, Held &held) {
    auto *call = dyn_cast<CallBase>(&instruction);
    if (!call || call->arg_empty()) return;
    if (isLock(*call)) held[lockOf(*call)] = {call};
    else if (isUnlock(*call)) held.erase(lockOf(*call));
  }

  bool waits(const CallBase &call, std::string &what) const {
    if (isLock(call) || isUnlock(call)) return false;
    Call classified = analysis.classify(call);
    if (classified.kind == Call::Plain) return false;
    what = shown((classified.targets.empty() ? classified.callee : classified.targets.front())
                     ->getName());
    return true;
  }

  void inspect(const CallBase &call, const Held &held) {
    std::string what;
    if (held.empty() || !waits(call, what)) return;
    for (auto &[lock, sites] : held) {
      // A wait for a condition releases the condition's own lock.
      if (StringRef(what).starts_with("pthread_cond_") && lockOfCondition(call) == lock) continue;
      report({place(call), what + " may wait while " + nameOf(lock) + " is held (taken at " +
                               place(**sites.begin()) + "); others that need it wait as long"});
    }
  }

  static const Value *lockOfCondition(const CallBase &call) {
    const Value *lock = call.getArgOperand(1)->stripPointerCasts();
    if (auto *load = dyn_cast<LoadInst>(lock)) return load->getPointerOperand();
    return lock;
  }

  // Finds a store of a value that was computed from a load of the same variable. Between load and
  // store is a wait, and no lock covers both.
  void findLostUpdates() {
    SmallVector<CallBase *, 8> waiting;
    std::string what;
    for (Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      if (call && waits(*call, what)) waiting.push_back(call);
    }
    if (waiting.empty()) return;
    for (Instruction &instruction : instructions(function)) {
      auto *store = dyn_cast<StoreInst>(&instruction);
      if (!store || !isShared(store->getPointerOperand())) continue;
      SmallPtrSet<const Value *, 16> seen;
      const LoadInst *load = source(store->getValueOperand(), store->getPointerOperand(), seen);
      if (!load || covered(*load, *store)) continue;
      for (CallBase *call : waiting) {
        if (!isPotentiallyReachable(load, call) || !isPotentiallyReachable(call, store)) continue;
        waits(*call, what);
        report({place(*store), nameOf(store->getPointerOperand()) +
                                   " is written with what was read from it at " + place(*load) +
                                   ", and " + what + " (" + place(*call) +
                                   ") may wait in between: an update by another thread is lost"});
        break;
      }
    }
  }

  // The compiler may have made several calls from one.
  void report(Hazard hazard) {
    bool known = any_of(hazards, [&](const Hazard &other) {
      return other.where == hazard.where && other.what == hazard.what;
    });
    if (!known) hazards.push_back(std::move(hazard));
  }

  static bool isShared(const Value *pointer) {
    return isa<GlobalVariable>(pointer->stripInBoundsOffsets());
  }

  bool covered(const LoadInst &load, const StoreInst &store) {
    for (auto &[lock, sites] : at[&load]) {
      auto found = at[&store].find(lock);
      if (found != at[&store].end() && found->second == sites) return true;
    }
    return false;
  }

  // The load of `variable` from which `value` was computed, through arithmetic and local variables.
  const LoadInst *source(const Value *value, const Value *variable,
                         SmallPtrSetImpl<const Value *> &seen) {
    if (!seen.insert(value).second || seen.size() > 64) return nullptr;
    if (auto *load = dyn_cast<LoadInst>(value)) {
      if (load->getPointerOperand() == variable) return load;
      auto *local = dyn_cast<AllocaInst>(load->getPointerOperand());
      if (!local) return nullptr;
      for (const User *user : local->users()) {
        auto *store = dyn_cast<StoreInst>(user);
        if (!store || store->getPointerOperand() != local) continue;
        if (const LoadInst *found = source(store->getValueOperand(), variable, seen)) return found;
      }
      return nullptr;
    }
    auto *instruction = dyn_cast<Instruction>(value);
    if (!instruction || isa<CallBase>(instruction)) return nullptr;
    for (const Value *operand : instruction->operands()) {
      if (const LoadInst *found = source(operand, variable, seen)) return found;
    }
    return nullptr;
  }

  Function &function;
  const Analysis &analysis;
  std::vector<Hazard> &hazards;
  std::map<const BasicBlock *, Held> before;
  std::map<const Instruction *, Held> at;
};

} // namespace

std::vector<Hazard> findHazards(Module &module, const Analysis &analysis) {
  std::vector<Hazard> hazards;
  for (Function &function : module) {
    if (!function.isDeclaration() && analysis.blocks(function) && &function != analysis.once())
      Flow(function, analysis, hazards).look();
  }
  return hazards;
}

std::vector<Hazard> findBlindSpots(Module &module) {
  std::vector<Hazard> found;
  bool is_libcxx = false;
  for (Function &function : module) {
    for (Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      if (call && !is_libcxx && is_contained(WAITS_OF_LIBCXX, calleeName(*call))) {
        is_libcxx = true;
        found.push_back({place(*call), "libc++ waits in its own library, on kernel threads: leave "
                                       "-stdlib=libc++ out, and link with libstdc++"});
      }
      auto *code = call ? dyn_cast<InlineAsm>(call->getCalledOperand()) : nullptr;
      if (code && StringRef(code->getAsmString()).contains("syscall")) {
        found.push_back({place(*call),
                         "assembly with a system call: if it blocks, all converted threads wait"});
      }
    }
  }
  return found;
}

} // namespace duality
