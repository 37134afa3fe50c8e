// The content of `duality cc --report` and `--graph`. The report is gathered in three steps,
// because its parts are known at different times. Before conversion it learns why functions block.
// Then it learns what became of each. After LLVM has split the coroutines, it learns what their
// frames keep.
#pragma once

#include "analysis.h"
#include "converter.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace duality {

// What may go wrong although the conversion is right: found in the program as it was written.
struct Hazard {
  std::string where;
  std::string what;
};

// Hazards of which the first of each kind is told, with the number of the others.
class Kinds {
public:
  void add(llvm::StringRef kind, Hazard hazard) {
    auto [known, is_new] = found.insert({kind, {std::move(hazard)}});
    if (!is_new) known->second.others++;
  }
  std::vector<Hazard> hazards() const {
    std::vector<Hazard> told;
    for (auto &[kind, all] : found) {
      told.push_back(all.first);
      if (all.others)
        told.back().what += "; so in " + std::to_string(all.others) +
                            (all.others == 1 ? " more place" : " more places");
    }
    return told;
  }

private:
  struct Found {
    Hazard first;
    unsigned others = 0;
  };
  llvm::MapVector<llvm::StringRef, Found> found;
};

// Locks that are held while something else is waited for, and values that are read before a wait
// and written after it.
std::vector<Hazard> findHazards(llvm::Module &module, const Analysis &analysis);

// Says what the call uses that is kept for each kernel thread, and its kind. Empty: nothing.
std::string stateOfTheThread(const llvm::CallBase &call, llvm::StringRef &kind);
// Such calls in converted functions: the first of each kind. Always told.
std::vector<Hazard> findSharedState(const Converter &converter);

// Functions of converted threads that wait on side stacks for a reason which the program can avoid,
// and handlers that would keep the end of a thread. Always told.
std::vector<Hazard> findExceptional(const Converter &converter, const Analysis &analysis);

// Calls that may keep the loop waiting, because the pass cannot see what they do. Always told.
std::vector<Hazard> findBlindSpots(llvm::Module &module);

// A frame after CoroSplit: its bytes, and the variables in it.
struct Frame {
  uint64_t size = 0;
  std::vector<std::pair<std::string, uint64_t>> kept;
};
Frame surveyFrame(llvm::Function &ramp);

// The number of functions of the program that may block, and of converted functions.
std::pair<size_t, size_t> counts(const Analysis &analysis, const Converter &converter);

class Report {
public:
  // Before conversion.
  void explain(llvm::Module &module, const Analysis &analysis);
  // After it.
  void conversion(const Analysis &analysis, const Converter &converter);
  // After CoroSplit.
  void frames(llvm::Module &module);
  void write(llvm::raw_ostream &stream) const;

private:
  struct Entry {
    std::string name, place, chain, coroutine, obstacle;
    Frame frame;
  };
  std::vector<Entry> entries;
  std::vector<SideCall> side_calls, pthreads;
  std::vector<Hazard> hazards;
};

// The graph of functions that may block, in the language of graphviz.
void writeGraph(llvm::raw_ostream &stream, llvm::Module &module, const Analysis &analysis);

} // namespace duality
