// State that the processor, libc and libraries keep for each kernel thread. All converted threads
// share it.

#include "converter.h"
#include "report.h"

#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"

using namespace llvm;

namespace duality {
namespace {

// Functions with state of the thread. The second string is the common cause of several functions,
// and is empty for a function with its own cause.
const std::pair<StringRef, StringRef> OF_THE_THREAD[] = {
    {"inet_ntoa", ""},
    {"strerror", ""},
    {"strsignal", ""},
    {"dlerror", ""},
    {"getlogin", ""},
    {"crypt", ""},
    {"__h_errno_location", ""},
    {"__res_state", ""},
    // The state that the kernel keeps.
    {"gettid", ""},
    {"prctl", ""},
    {"setfsuid", ""},
    {"setfsgid", ""},
    {"capset", ""},
    {"unshare", ""},
    {"setns", ""},
    {"sched_setaffinity", ""},
    {"sched_setscheduler", ""},
    // The state that libraries keep.
    {"ERR_get_error", "OpenSSL's queue of errors"},
    {"ERR_peek_error", "OpenSSL's queue of errors"},
    {"ERR_peek_last_error", "OpenSSL's queue of errors"},
    {"ERR_clear_error", "OpenSSL's queue of errors"},
    {"ERR_print_errors_fp", "OpenSSL's queue of errors"},
    {"SSL_get_error", "OpenSSL's queue of errors"},
    {"xmlGetLastError", "libxml2's last error"},
    {"__xmlLastError", "libxml2's last error"},
    {"mysql_thread_init", "libmysqlclient"},
    {"g_private_get", "GLib's private data"},
    {"g_private_set", "GLib's private data"},
};

// The values of CLOCK_THREAD_CPUTIME_ID and RUSAGE_THREAD.
enum { THREAD_CPUTIME = 3, USAGE_OF_THREAD = 1 };

// Functions that ask for state of the kernel thread if this value is their first argument.
const struct {
  StringRef name;
  int argument;
  StringRef what;
} IF_ASKED[] = {
    {"getrusage", USAGE_OF_THREAD, "getrusage(RUSAGE_THREAD)"},
    {"timer_create", THREAD_CPUTIME, "timer_create(CLOCK_THREAD_CPUTIME_ID)"},
};

bool asksFor(const CallBase &call, int first) {
  auto *argument = call.arg_empty() ? nullptr : dyn_cast<ConstantInt>(call.getArgOperand(0));
  return argument && argument->equalsInt(first);
}

// Functions that read or change the flags of floating-point exceptions.
const char *const FLAGS[] = {
    "feclearexcept",   "fetestexcept",    "feraiseexcept",    "fesetexcept",
    "fegetexceptflag", "fesetexceptflag", "fetestexceptflag", "fegetenv",
    "fesetenv",        "feholdexcept",    "feupdateenv",      "llvm.x86.sse.stmxcsr",
};
const StringRef FLAG_ASSEMBLY[] = {"stmxcsr", "stsw", "stenv", "clex"};

} // namespace

std::string stateOfTheThread(const CallBase &call, StringRef &kind) {
  const Function *callee = calledFunction(call);
  if (!callee || !callee->isDeclaration()) return "";
  for (auto &[name, group] : OF_THE_THREAD) {
    if (name != callee->getName()) continue;
    kind = group.empty() ? name : group;
    return (name + (group.empty() ? "" : " (" + group + ")") +
            " keeps its state for each kernel thread, which all converted threads share: after a "
            "wait it is another thread's")
        .str();
  }
  for (auto &[name, argument, what] : IF_ASKED) {
    if (name != callee->getName() || !asksFor(call, argument)) continue;
    kind = name;
    return (what + " is of the kernel thread, which all converted threads share").str();
  }
  return "";
}

std::vector<Hazard> findSharedState(const Converter &converter) {
  Kinds kinds;
  for (auto &[original, coroutine] : converter.coroutines()) {
    for (Instruction &instruction : instructions(*original)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      StringRef kind;
      std::string what = call ? stateOfTheThread(*call, kind) : "";
      if (!what.empty()) kinds.add(kind, {place(*call), what});
    }
  }
  return kinds.hazards();
}

bool readsThreadTimes(Module &module) {
  Function *clock_of = module.getFunction("pthread_getcpuclockid"),
           *read = module.getFunction("clock_gettime");
  if (clock_of && clock_of->isDeclaration() && !clock_of->use_empty()) return true;
  if (!read || !read->isDeclaration()) return false;
  return any_of(read->users(), [&](User *user) {
    auto *call = dyn_cast<CallBase>(user);
    return call && calledFunction(*call) == read && asksFor(*call, THREAD_CPUTIME);
  });
}

bool readsFloatingFlags(Module &module) {
  for (const char *name : FLAGS) {
    Function *function = module.getFunction(name);
    if (function && function->isDeclaration() && !function->use_empty()) return true;
  }
  for (Function &function : module) {
    for (Instruction &instruction : instructions(function)) {
      auto *call = dyn_cast<CallBase>(&instruction);
      auto *code = call ? dyn_cast<InlineAsm>(call->getCalledOperand()) : nullptr;
      if (code && any_of(FLAG_ASSEMBLY, [&](StringRef part) {
            return StringRef(code->getAsmString()).contains(part);
          }))
        return true;
    }
  }
  return false;
}

} // namespace duality
