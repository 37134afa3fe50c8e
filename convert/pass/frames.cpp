// Finds out which variables a frame keeps. The search reads the coroutine right after LLVM has
// split it, when accesses to the frame still have the names of the variables.

#include "report.h"

#include "runtime.h"

#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

#include <map>

using namespace llvm;

namespace duality {
namespace {

// Whether a field of the frame belongs to LLVM or the pass, and not to the program.
bool isOwn(StringRef name) { return name == "parent" || name == "handle" || name == "index"; }

} // namespace

Frame surveyFrame(Function &ramp) {
  Frame frame;
  Module &module = *ramp.getParent();
  const DataLayout &layout = module.getDataLayout();
  std::map<uint64_t, std::pair<std::string, uint64_t>> fields;
  for (StringRef part : {"", ".resume", ".destroy"}) {
    Function *function = module.getFunction((ramp.getName() + part).str());
    if (!function) continue;
    for (Instruction &instruction : instructions(*function)) {
      if (auto *call = dyn_cast<CallInst>(&instruction)) {
        Function *callee = call->getCalledFunction();
        if (callee && callee->getName() == "rt_frame_allocate") {
          if (auto *size = dyn_cast<ConstantInt>(call->getArgOperand(0)))
            frame.size = size->getZExtValue();
        }
      }
      auto *access = dyn_cast<GetElementPtrInst>(&instruction);
      auto *type = access ? dyn_cast<StructType>(access->getSourceElementType()) : nullptr;
      if (!type || access->getNumIndices() != 2) continue;
      StringRef name = access->getName();
      size_t end = std::min(name.find(".reload"), name.find(".spill"));
      auto *index = dyn_cast<ConstantInt>(access->getOperand(2));
      if (end == StringRef::npos || !index) continue;
      // The pass ends names with a point. LLVM adds a number to equal names after the point.
      name = name.take_front(std::min(end, name.find('.')));
      if (isOwn(name)) continue;
      uint64_t size = layout.getTypeAllocSize(type->getElementType(index->getZExtValue()));
      auto &[known, bytes] = fields[index->getZExtValue()];
      // Variables with separate lives share a field.
      std::string text = name.empty() ? "a temporary" : name.str();
      if (known.empty()) known = text;
      else if (("/" + known + "/").find("/" + text + "/") == std::string::npos) known += "/" + text;
      bytes = size;
    }
  }
  for (auto &[index, field] : fields) frame.kept.push_back(field);
  sort(frame.kept, [](const auto &one, const auto &other) { return one.second > other.second; });
  return frame;
}

} // namespace duality
