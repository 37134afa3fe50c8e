// The tables of primitives. To add a primitive, add a line here, its declaration to
// contract/duality_convert.h, and its definition to each runtime.

#include "primitives.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace llvm;

namespace duality {
namespace {

constexpr Primitive waits(StringRef name, StringRef runtime) {
  return {name, Role::Waits, runtime, ""};
}

constexpr Primitive renamed(StringRef name, StringRef runtime) {
  return {name, Role::Renamed, runtime, runtime};
}

constexpr Primitive fortified(StringRef name, StringRef runtime, int bound, int length,
                              int unit = 1) {
  return {name, Role::Waits, runtime, "", bound, length, unit};
}

constexpr Primitive asks(StringRef name) { return {name, Role::Asks, "", ""}; }

constexpr Primitive library(StringRef name) {
  return {name, Role::Library, "rt_call_on_side_stack", ""};
}

const Primitive PRIMITIVES[] = {
    {"pthread_create", Role::Spawn, "rt_spawn", "rt_spawn"},
    {"pthread_once", Role::Once, "rt_once_begin", ""},
    // The pass itself emits calls of these.
    waits("rt_once_begin", "rt_once_begin"),
    waits("rt_give_way", "rt_give_way"),

    // Descriptors.
    waits("read", "rt_read"),
    waits("readv", "rt_readv"),
    waits("recv", "rt_recv"),
    waits("recvfrom", "rt_recvfrom"),
    waits("recvmsg", "rt_recvmsg"),
    waits("write", "rt_write"),
    waits("writev", "rt_writev"),
    waits("send", "rt_send"),
    waits("sendto", "rt_sendto"),
    waits("sendmsg", "rt_sendmsg"),
    waits("sendfile", "rt_sendfile"),
    waits("sendfile64", "rt_sendfile"),
    waits("accept", "rt_accept"),
    waits("accept4", "rt_accept4"),
    waits("connect", "rt_connect"),
    waits("poll", "rt_poll"),
    waits("ppoll", "rt_ppoll"),
    waits("select", "rt_select"),
    waits("pselect", "rt_pselect"),
    waits("epoll_wait", "rt_epoll_wait"),
    waits("epoll_pwait", "rt_epoll_pwait"),
    fortified("__read_chk", "rt_read", 3, 2),
    fortified("__recv_chk", "rt_recv", 3, 2),
    fortified("__recvfrom_chk", "rt_recvfrom", 3, 2),
    fortified("__poll_chk", "rt_poll", 3, 1, 8),
    fortified("__ppoll_chk", "rt_ppoll", 4, 1, 8),

    // Time.
    waits("sleep", "rt_sleep"),
    waits("usleep", "rt_usleep"),
    waits("nanosleep", "rt_nanosleep"),
    waits("clock_nanosleep", "rt_clock_nanosleep"),
    waits("sched_yield", "rt_sched_yield"),
    waits("pthread_yield", "rt_sched_yield"),

    // Locks and conditions.
    {"pthread_mutex_lock", Role::Waits, "rt_pthread_mutex_lock", "rt_block_pthread_mutex_lock"},
    {"pthread_mutex_timedlock", Role::Waits, "rt_pthread_mutex_timedlock",
     "rt_block_pthread_mutex_timedlock"},
    {"pthread_mutex_clocklock", Role::Waits, "rt_pthread_mutex_clocklock",
     "rt_block_pthread_mutex_clocklock"},
    waits("pthread_cond_wait", "rt_pthread_cond_wait"),
    waits("pthread_cond_timedwait", "rt_pthread_cond_timedwait"),
    waits("pthread_cond_clockwait", "rt_pthread_cond_clockwait"),
    waits("pthread_rwlock_rdlock", "rt_pthread_rwlock_rdlock"),
    waits("pthread_rwlock_timedrdlock", "rt_pthread_rwlock_timedrdlock"),
    waits("pthread_rwlock_clockrdlock", "rt_pthread_rwlock_clockrdlock"),
    waits("pthread_rwlock_wrlock", "rt_pthread_rwlock_wrlock"),
    waits("pthread_rwlock_timedwrlock", "rt_pthread_rwlock_timedwrlock"),
    waits("pthread_rwlock_clockwrlock", "rt_pthread_rwlock_clockwrlock"),
    waits("pthread_barrier_wait", "rt_pthread_barrier_wait"),
    waits("pthread_spin_lock", "rt_pthread_spin_lock"),
    {"flockfile", Role::Waits, "rt_flockfile", "rt_block_flockfile"},
    waits("sem_wait", "rt_sem_wait"),
    waits("sem_timedwait", "rt_sem_timedwait"),
    waits("sem_clockwait", "rt_sem_clockwait"),
    {"pthread_join", Role::Waits, "rt_pthread_join", "rt_block_pthread_join"},
    {"pthread_timedjoin_np", Role::Waits, "rt_pthread_timedjoin_np",
     "rt_block_pthread_timedjoin_np"},
    {"pthread_clockjoin_np", Role::Waits, "rt_pthread_clockjoin_np",
     "rt_block_pthread_clockjoin_np"},
    {"pthread_exit", Role::Waits, "rt_pthread_exit", "rt_block_pthread_exit"},
    waits("pthread_testcancel", "rt_pthread_testcancel"),
    // The functions that duality.h calls.
    waits("duality_detach_task", "rt_duality_detach"),
    waits("duality_attach_task", "rt_duality_attach"),

    renamed("fork", "rt_fork"),
    renamed("pthread_sigmask", "rt_pthread_sigmask"),
    renamed("sigprocmask", "rt_sigprocmask"),
    renamed("pthread_self", "rt_pthread_self"),
    renamed("pthread_detach", "rt_pthread_detach"),
    renamed("pthread_cancel", "rt_pthread_cancel"),
    renamed("pthread_kill", "rt_pthread_kill"),
    renamed("raise", "rt_raise"),
    renamed("sigpending", "rt_sigpending"),
    renamed("pthread_sigqueue", "rt_pthread_sigqueue"),
    renamed("pthread_tryjoin_np", "rt_pthread_tryjoin_np"),
    renamed("pthread_setcancelstate", "rt_pthread_setcancelstate"),
    renamed("pthread_setcanceltype", "rt_pthread_setcanceltype"),
    renamed("pthread_mutex_trylock", "rt_pthread_mutex_trylock"),
    renamed("pthread_mutex_unlock", "rt_pthread_mutex_unlock"),
    renamed("pthread_cond_signal", "rt_pthread_cond_signal"),
    renamed("pthread_cond_broadcast", "rt_pthread_cond_broadcast"),
    renamed("pthread_rwlock_tryrdlock", "rt_pthread_rwlock_tryrdlock"),
    renamed("pthread_rwlock_trywrlock", "rt_pthread_rwlock_trywrlock"),
    renamed("pthread_rwlock_unlock", "rt_pthread_rwlock_unlock"),
    renamed("sem_post", "rt_sem_post"),
    renamed("sem_trywait", "rt_sem_trywait"),
    renamed("ftrylockfile", "rt_ftrylockfile"),
    renamed("funlockfile", "rt_funlockfile"),
    renamed("fclose", "rt_fclose"),
    renamed("uselocale", "rt_uselocale"),
    renamed("pthread_key_create", "rt_pthread_key_create"),
    renamed("pthread_key_delete", "rt_pthread_key_delete"),
    renamed("pthread_getspecific", "rt_pthread_getspecific"),
    renamed("pthread_setspecific", "rt_pthread_setspecific"),
    renamed("pthread_setname_np", "rt_pthread_setname_np"),
    renamed("pthread_getname_np", "rt_pthread_getname_np"),
    renamed("pthread_getattr_np", "rt_pthread_getattr_np"),
    renamed("pthread_setschedparam", "rt_pthread_setschedparam"),
    renamed("pthread_setschedprio", "rt_pthread_setschedprio"),
    renamed("pthread_getschedparam", "rt_pthread_getschedparam"),
    renamed("pthread_setaffinity_np", "rt_pthread_setaffinity_np"),
    renamed("pthread_getaffinity_np", "rt_pthread_getaffinity_np"),
    renamed("pthread_getcpuclockid", "rt_pthread_getcpuclockid"),
    renamed("clock_gettime", "rt_clock_gettime"),

    // Functions that a thread may call again and again until another thread acts, or until a time.
    // Renamed functions count too.
    asks("gettimeofday"),
    asks("time"),
    asks("clock"),
    asks("times"),
    asks("getrusage"),
    asks("getpid"),
    asks("getppid"),
    asks("gettid"),
    asks("sched_getcpu"),
    asks("sem_getvalue"),
    asks("pthread_spin_trylock"),
    asks("mtx_trylock"),
    asks("access"),
    asks("stat"),
    asks("fstat"),
    asks("lstat"),
    asks("ioctl"),
    asks("getsockopt"),
    asks("kill"),
    asks("pread"),
    asks("pread64"),

    // Names and addresses: libc asks servers.
    library("getaddrinfo"),
    library("getnameinfo"),
    library("gethostbyname"),
    library("gethostbyname2"),
    library("gethostbyname_r"),
    library("gethostbyname2_r"),
    library("gethostbyaddr"),
    library("gethostbyaddr_r"),
    library("getpwnam"),
    library("getpwnam_r"),
    library("getpwuid"),
    library("getpwuid_r"),
    library("getgrnam"),
    library("getgrnam_r"),
    library("getgrgid"),
    library("getgrgid_r"),
    library("initgroups"),
    library("res_query"),
    library("res_search"),
    // Input by stdio: the file may be a socket or a pipe.
    library("fread"),
    library("fread_unlocked"),
    library("__fread_chk"),
    library("__fread_unlocked_chk"),
    library("fgets"),
    library("fgets_unlocked"),
    library("__fgets_chk"),
    library("__fgets_unlocked_chk"),
    library("fgetc"),
    library("getc"),
    library("getc_unlocked"),
    library("getchar"),
    library("getchar_unlocked"),
    library("__uflow"),
    library("__underflow"),
    library("getline"),
    library("getdelim"),
    library("__getdelim"),
    library("scanf"),
    library("fscanf"),
    library("vscanf"),
    library("vfscanf"),
    library("__isoc99_scanf"),
    library("__isoc99_fscanf"),
    library("__isoc99_vscanf"),
    library("__isoc99_vfscanf"),
    library("__isoc23_scanf"),
    library("__isoc23_fscanf"),
    library("__isoc23_vscanf"),
    library("__isoc23_vfscanf"),
    // Disks, locks on files, message queues.
    library("fsync"),
    library("fdatasync"),
    library("sync"),
    library("syncfs"),
    library("msync"),
    library("sync_file_range"),
    library("flock"),
    library("lockf"),
    library("lockf64"),
    library("splice"),
    library("tee"),
    library("copy_file_range"),
    library("msgrcv"),
    library("msgsnd"),
    library("semop"),
    library("semtimedop"),
    library("mq_receive"),
    library("mq_timedreceive"),
    library("mq_send"),
    library("mq_timedsend"),
    library("aio_suspend"),
    library("lio_listio"),
    library("recvmmsg"),
    library("sendmmsg"),
    library("preadv2"),
    library("pwritev2"),
    library("epoll_pwait2"),
    // Processes and signals.
    library("wait"),
    library("wait3"),
    library("wait4"),
    library("waitpid"),
    library("waitid"),
    library("system"),
    library("popen"),
    library("pclose"),
    library("pause"),
    library("sigwait"),
    library("sigwaitinfo"),
    library("sigtimedwait"),
    library("sigsuspend"),
    library("tcdrain"),
    library("getpass"),
    library("readline"),
    // System calls by number: the pass does not check the number, so the call may be any call.
    library("syscall"),
    // C11 threads: glibc implements them by pthreads.
    library("thrd_join"),
    library("thrd_sleep"),
    library("mtx_lock"),
    library("mtx_timedlock"),
    library("cnd_wait"),
    library("cnd_timedwait"),
};

const Callback CALLBACKS[] = {
    {"qsort", 3, 2},   {"qsort_r", 3, 3},         {"bsearch", 4, 2},
    {"lfind", 4, 2},   {"lsearch", 4, 2},         {"tsearch", 2, 2},
    {"tfind", 2, 2},   {"tdelete", 2, 2},         {"twalk", 1, 3},
    {"twalk_r", 1, 3}, {"tdestroy", 1, 1},        {"ftw", 1, 3},
    {"nftw", 1, 4},    {"scandir", 2, 1},         {"scandir", 3, 2},
    {"glob", 2, 2},    {"dl_iterate_phdr", 0, 3},
};

const char *const KEEPS[] = {
    "signal",     "bsd_signal",    "sysv_signal",    "__sysv_signal",     "atexit",
    "on_exit",    "at_quick_exit", "pthread_atfork", "__register_atfork", "pthread_key_create",
    "tss_create", "__cxa_atexit",  "sigset",
    // C++: functions that keep a destructor and call it later.
    "__cxa_throw", "__cxa_init_primary_exception", "__cxa_thread_atexit",
    "__cxa_thread_atexit_impl",
};

} // namespace

const Primitive *primitive(const Function &function) {
  static const StringMap<const Primitive *> map = [] {
    StringMap<const Primitive *> map;
    for (const Primitive &primitive : PRIMITIVES) map[primitive.name] = &primitive;
    return map;
  }();
  return function.isDeclaration() ? map.lookup(function.getName()) : nullptr;
}

SmallVector<Callback, 2> callbacks(const Function &function) {
  SmallVector<Callback, 2> found;
  if (!function.isDeclaration()) return found;
  for (const Callback &callback : CALLBACKS) {
    if (callback.name == function.getName()) found.push_back(callback);
  }
  return found;
}

bool keepsCallback(const Function &function) {
  static const StringSet<> set = [] {
    StringSet<> set;
    for (const char *name : KEEPS) set.insert(name);
    return set;
  }();
  return set.contains(function.getName());
}

} // namespace duality
