// Gathers and writes the report.

#include "report.h"

#include "llvm/Support/Format.h"

using namespace llvm;

namespace duality {
namespace {

// "calls answer (server.c:130), which calls send (server.c:103)": the chain down to the primitive.
std::string chainOf(Function *function, const MapVector<Function *, Reason> &reasons) {
  std::string text;
  for (auto *found = reasons.find(function); found != reasons.end();
       found = reasons.find(function)) {
    const Reason &reason = found->second;
    if (!text.empty()) text += ", which ";
    if (!reason.leads_to) return text + "spins on a variable (" + place(*reason.site) + ")";
    switch (reason.kind) {
    case Call::Indirect: text += "calls by a pointer, maybe "; break;
    case Call::Callback:
      text += "calls " + shown(calledFunction(*cast<CallBase>(reason.site))->getName()) +
              ", which may call ";
      break;
    default: text += "calls "; break;
    }
    text += shown(reason.leads_to->getName()) + " (" + place(*reason.site) + ")";
    function = reason.leads_to;
  }
  return text;
}

void list(raw_ostream &stream, StringRef title, const std::vector<SideCall> &calls) {
  if (calls.empty()) return;
  stream << "\n" << title << "\n";
  for (const SideCall &call : calls)
    stream << "  " << call.where << ": " << call.what << ": " << call.why << "\n";
}

} // namespace

std::pair<size_t, size_t> counts(const Analysis &analysis, const Converter &converter) {
  size_t blocking = 0, converted = 0;
  for (const auto &[function, reason] : analysis.blocking()) {
    if (function == analysis.once()) continue;
    blocking++;
    converted += converter.coroutines().contains(function);
  }
  return {blocking, converted};
}

void Report::explain(Module &module, const Analysis &analysis) {
  for (const auto &[function, reason] : analysis.blocking()) {
    // This function belongs to the pass, not to the program.
    if (function == analysis.once()) continue;
    entries.push_back({shown(function->getName()),
                       place(*function),
                       chainOf(function, analysis.blocking()),
                       "",
                       "",
                       {}});
  }
  hazards = findHazards(module, analysis);
}

void Report::conversion(const Analysis &analysis, const Converter &converter) {
  side_calls = converter.sideCalls();
  pthreads = converter.pthreads();
  auto blocking = analysis.blocking().begin();
  for (Entry &entry : entries) {
    if (blocking->first == analysis.once()) ++blocking;
    Function *function = (blocking++)->first;
    auto *made = converter.coroutines().find(function);
    if (made != converter.coroutines().end()) entry.coroutine = made->second->getName().str();
    else entry.obstacle = analysis.obstacle(*function);
  }
}

void Report::frames(Module &module) {
  for (Entry &entry : entries) {
    if (Function *ramp = entry.coroutine.empty() ? nullptr : module.getFunction(entry.coroutine))
      entry.frame = surveyFrame(*ramp);
  }
}

void Report::write(raw_ostream &stream) const {
  size_t converted = count_if(entries, [](const Entry &entry) { return !entry.coroutine.empty(); });
  stream << entries.size() << " functions may block; " << converted
         << " of them were converted\n\nFunctions that may block\n";
  for (const Entry &entry : entries) {
    stream << "  " << entry.name << " (" << entry.place << "): ";
    if (!entry.coroutine.empty()) stream << "converted, frame of " << entry.frame.size << " bytes";
    else if (!entry.obstacle.empty()) stream << "not converted: " << entry.obstacle;
    else stream << "not converted: no converted thread calls it";
    stream << "\n      " << entry.chain << "\n";
    if (entry.frame.kept.empty()) continue;
    stream << "      keeps ";
    StringRef separator = "";
    for (const auto &[name, size] : entry.frame.kept) {
      stream << separator << name << " (" << size << ")";
      separator = ", ";
    }
    stream << "\n";
  }
  list(stream, "Calls on a side stack", side_calls);
  list(stream, "Threads that stay pthreads", pthreads);
  if (hazards.empty()) return;
  stream << "\nWarnings\n";
  for (const Hazard &hazard : hazards)
    stream << "  " << hazard.where << ": " << hazard.what << "\n";
}

void writeGraph(raw_ostream &stream, Module &module, const Analysis &analysis) {
  auto quoted = [](StringRef name) { return ("\"" + name + "\"").str(); };
  stream << "digraph blocking {\n  rankdir=LR;\n  node [shape=box, fontname=\"monospace\"];\n";
  SmallPtrSet<const Function *, 16> leaves;
  for (const auto &[function, reason] : analysis.blocking()) {
    bool convertible = analysis.obstacle(*function).empty();
    stream << "  " << quoted(shown(function->getName())) << " [tooltip=" << quoted(place(*function))
           << (convertible ? "" : ", style=dashed, xlabel=\"side stack\"") << "];\n";
    SmallPtrSet<const Function *, 8> seen;
    for (BasicBlock &block : *function) {
      for (Instruction &instruction : block) {
        auto *call = dyn_cast<CallBase>(&instruction);
        if (!call) continue;
        Call classified = analysis.classify(*call);
        if (classified.kind == Call::Plain) continue;
        SmallVector<Function *, 4> targets = classified.targets;
        if (targets.empty()) targets.push_back(classified.callee);
        for (Function *target : targets) {
          if (!seen.insert(target).second) continue;
          if (target->isDeclaration()) leaves.insert(target);
          stream << "  " << quoted(shown(function->getName())) << " -> " << quoted(shown(target->getName()))
                 << " [tooltip=" << quoted(place(*call))
                 << (classified.kind == Call::Direct || classified.kind == Call::Primitive
                         ? ""
                         : ", style=dashed")
                 << "];\n";
        }
      }
    }
  }
  for (const Function *leaf : leaves)
    stream << "  " << quoted(shown(leaf->getName())) << " [shape=ellipse];\n";
  stream << "}\n";
}

} // namespace duality
