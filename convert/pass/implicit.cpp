// Finds calls in C++ that wait for another thread, although their names do not say so:
//
// - `syscall` with the constant number of futex(2), as in std::atomic::wait, std::latch and
//   std::counting_semaphore;
// - `__cxa_guard_acquire`, if another thread initialises the same static variable. The call waits
//   for long only if the initialiser may block.
//
// All other calls of the two stay as they are: `syscall` on a side stack, and `__cxa_guard_acquire`
// native.

#include "analysis.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/TargetParser/Triple.h"

#include <sys/syscall.h>

using namespace llvm;

namespace duality {
namespace {

constexpr Primitive FUTEX = {"syscall", Role::Waits, "rt_futex", ""};
constexpr Primitive WAKES = {"syscall", Role::Asks, "", ""};
constexpr Primitive GUARD = {"__cxa_guard_acquire", Role::Waits, "rt_guard_acquire", ""};

// Constants of linux/futex.h: operations, their flags, and the mask of all waiters.
enum : uint64_t { WAIT = 0, WAKE = 1, WAIT_BITSET = 9, PRIVATE = 128, REALTIME = 256 };
constexpr uint64_t ANY = 0xffffffff;

// The argument, if it is a constant number.
std::optional<uint64_t> constant(const CallBase &call, unsigned index) {
  if (index >= call.arg_size()) return std::nullopt;
  auto *number = dyn_cast<ConstantInt>(call.getArgOperand(index));
  if (!number) return std::nullopt;
  return number->getZExtValue();
}

const Primitive *futex(const CallBase &call) {
  // The numbers of system calls belong to the machine that the pass runs on.
  bool is_native = Triple(call.getModule()->getTargetTriple()).getArch() == Triple::x86_64;
  if (!is_native || constant(call, 0) != SYS_futex) return nullptr;
  std::optional<uint64_t> operation = constant(call, 2);
  if (!operation) return nullptr;
  switch (*operation & ~(PRIVATE | REALTIME)) {
  case WAKE: return &WAKES;
  case WAIT: return call.arg_size() >= FUTEX_ARGUMENTS ? &FUTEX : nullptr;
  case WAIT_BITSET: {
    std::optional<uint64_t> mask = constant(call, 6);
    return mask && static_cast<uint32_t>(*mask) == ANY ? &FUTEX : nullptr;
  }
  default: return nullptr;
  }
}

const Value *variableOf(const CallBase &call) { return call.getArgOperand(0)->stripPointerCasts(); }

// Whether the instruction calls this function of guards.
bool calls(const Instruction &instruction, StringRef name) {
  auto *call = dyn_cast<CallBase>(&instruction);
  const Function *callee = call ? calledFunction(*call) : nullptr;
  return callee && callee->isDeclaration() && callee->getName() == name && call->arg_size() == 1;
}

} // namespace

// Searches the code between the call and the end of the initialiser, backwards from the end.
bool Analysis::initialiserBlocks(const CallBase &acquire) const {
  SmallPtrSet<const Instruction *, 16> seen;
  SmallVector<const Instruction *, 16> pending;
  for (const Instruction &instruction : instructions(*acquire.getFunction())) {
    if (calls(instruction, "__cxa_guard_release") &&
        variableOf(cast<CallBase>(instruction)) == variableOf(acquire))
      pending.push_back(&instruction);
  }
  while (!pending.empty()) {
    const Instruction *instruction = pending.pop_back_val();
    if (instruction == &acquire || !seen.insert(instruction).second) continue;
    auto *call = dyn_cast<CallBase>(instruction);
    if (call && classify(*call).kind != Call::Plain) return true;
    if (const Instruction *before = instruction->getPrevNode()) {
      pending.push_back(before);
      continue;
    }
    for (const BasicBlock *block : predecessors(instruction->getParent()))
      pending.push_back(block->getTerminator());
  }
  return false;
}

// A function that calls a blocking initialiser blocks, also if it does not wait for the variable.
// So this search comes after the fixpoint, and does not change its result.
void Analysis::findBlockingInitialisers() {
  SmallPtrSet<const Value *, 8> found;
  for (const auto &[function, reason] : reasons) {
    for (const Instruction &instruction : instructions(*function)) {
      if (!calls(instruction, GUARD.name)) continue;
      auto &acquire = cast<CallBase>(instruction);
      if (initialiserBlocks(acquire)) found.insert(variableOf(acquire));
    }
  }
  // The result is stored only now, so that a variable in the initialiser of another does not affect
  // itself.
  awaited_guards = std::move(found);
}

const Primitive *Analysis::implicit(const CallBase &call, const Function &callee) const {
  if (!is_cxx || !callee.isDeclaration()) return nullptr;
  if (callee.getName() == "syscall") return futex(call);
  return calls(call, GUARD.name) && awaited_guards.contains(variableOf(call)) ? &GUARD : nullptr;
}

} // namespace duality
