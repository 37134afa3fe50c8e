// The content of `duality cc --report` and `--graph`. The report is gathered in three steps,
// because its parts are known at different times. Before conversion, the report gets the reasons
// why functions block. After conversion, it gets the result for each function. After LLVM has split
// the coroutines, it gets the contents of their frames.
#pragma once

#include "analysis.h"
#include "converter.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace duality {

// A possible mistake although the conversion is right, found in the original program.
struct Hazard {
  std::string where;
  std::string what;
};

// Hazards. The driver prints the first of each kind, with the number of the others.
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

// Finds locks that are held during a wait, and values that are read before a wait and written after
// it.
std::vector<Hazard> findHazards(llvm::Module &module, const Analysis &analysis);

// Describes the state of the kernel thread that the call uses, and its kind. Empty if the call uses
// no such state.
std::string stateOfTheThread(const llvm::CallBase &call, llvm::StringRef &kind);
// Finds calls with state of the thread in converted functions: the first of each kind. The driver
// always prints these calls.
std::vector<Hazard> findSharedState(const Converter &converter);

// Finds functions of converted threads that wait on side stacks for an avoidable reason, and
// handlers that would keep the end of a thread. The driver always prints them.
std::vector<Hazard> findExceptional(const Converter &converter, const Analysis &analysis);

// Finds calls that may hold up the loop, because the pass cannot see their code. The driver always
// prints these calls.
std::vector<Hazard> findBlindSpots(llvm::Module &module);

// A frame after CoroSplit: its bytes, and the variables in it.
struct Frame {
  uint64_t size = 0;
  std::vector<std::pair<std::string, uint64_t>> kept;
};
Frame surveyFrame(llvm::Function &ramp);

// The numbers of functions of the program that may block, and of converted functions.
std::pair<size_t, size_t> counts(const Analysis &analysis, const Converter &converter);

class Report {
public:
  // Call this before conversion.
  void explain(llvm::Module &module, const Analysis &analysis);
  // Call this after conversion.
  void conversion(const Analysis &analysis, const Converter &converter);
  // Call this after CoroSplit.
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
