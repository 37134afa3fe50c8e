// Virtual calls of C++: finds the functions that are called only by tables of virtual functions,
// and their places (C++ ABI for Itanium, 2.5).
//
// ```text
//   _ZTV5Derived = { [offset to top, type, first, second, …], [… of a further base] }
//                                          0      1       the place that a call loads from
// ```
//
// So a call that loads its callee from place 1 does not lead to a function that has other places
// only.

#include "analysis.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalAlias.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace duality {
namespace {

// Whether a user is a table, or a table that is in use while a base is built.
bool isTable(const User *user) {
  auto *variable = dyn_cast<GlobalVariable>(user);
  return variable &&
         (variable->getName().starts_with("_ZTV") || variable->getName().starts_with("_ZTC"));
}

// Whether a use is only an entry of tables.
bool isEntry(const Use &use) {
  if (auto *alias = dyn_cast<GlobalAlias>(use.getUser())) return all_of(alias->uses(), isEntry);
  if (!isa<ConstantArray>(use.getUser())) return false;
  return all_of(use.getUser()->users(), [](const User *owner) {
    return isTable(owner) || (isa<ConstantStruct>(owner) && all_of(owner->users(), isTable));
  });
}

} // namespace

void Analysis::findSlots() {
  for (Function *function : address_taken) {
    if (all_of(function->uses(), [](const Use &use) { return isHarmless(use) || isEntry(use); }))
      slots[function];
  }
  auto look = [&](const ConstantArray &table) {
    // The places begin after the type.
    std::optional<int64_t> first;
    for (unsigned index = 0; index < table.getNumOperands(); index++) {
      const Value *entry = table.getOperand(index)->stripPointerCastsAndAliases();
      if (!first && entry->getName().starts_with("_ZTI")) first = index + 1;
      auto *function = dyn_cast<Function>(entry);
      if (!function || !slots.count(function)) continue;
      // Without a type (-fno-rtti), places are not known.
      if (first) slots[function].push_back(index - *first);
      else slots.erase(function);
    }
  };
  for (const GlobalVariable &variable : module.globals()) {
    if (!isTable(&variable) || !variable.hasInitializer()) continue;
    const Constant *initial = variable.getInitializer();
    if (auto *table = dyn_cast<ConstantArray>(initial)) look(*table);
    for (const Use &part : initial->operands()) {
      if (auto *table = dyn_cast<ConstantArray>(part)) look(*table);
    }
  }
}

bool Analysis::isAt(const Function &function, int64_t slot) const {
  auto known = slots.find(&function);
  return slot == ANY_SLOT || known == slots.end() || is_contained(known->second, slot);
}

int64_t slotOf(const CallBase &call) {
  auto *loaded = dyn_cast<LoadInst>(call.getCalledOperand());
  if (!loaded) return ANY_SLOT;
  APInt offset(64, 0);
  const Value *base = loaded->getPointerOperand()->stripAndAccumulateConstantOffsets(
      call.getModule()->getDataLayout(), offset, true);
  if (isa<AllocaInst>(base) || isa<GlobalValue>(base)) return NO_SLOT;
  // A computed place comes from a pointer to a member function.
  if (isa<GetElementPtrInst>(base)) return ANY_SLOT;
  return offset.getSExtValue() / 8;
}

} // namespace duality
