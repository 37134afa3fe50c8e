// The part of libstdc++ (of GCC 8 and later) that starts threads and waits, as code of the program.
//
// These functions are in libstdc++.so, where the pass does not see them. `duality c++` links this
// file as bitcode in front of that library. So std::thread starts tasks, and its waits are
// primitives. Everything else is in headers: mutexes, std::async, std::jthread, std::call_once.
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <future>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include <pthread.h>
#include <unistd.h>

// ---- std::thread

static void *run(void *state) {
  std::unique_ptr<std::thread::_State> owned(static_cast<std::thread::_State *>(state));
  owned->_M_run();
  return nullptr;
}

void std::thread::_M_start_thread(_State_ptr state, void (*)()) {
  int error = pthread_create(&_M_id._M_thread, nullptr, run, state.get());
  if (error) __throw_system_error(error);
  state.release();
}

void std::thread::join() {
  int error = joinable() ? pthread_join(_M_id._M_thread, nullptr) : EINVAL;
  if (error) __throw_system_error(error);
  _M_id = id();
}

void std::thread::detach() {
  int error = joinable() ? pthread_detach(_M_id._M_thread) : EINVAL;
  if (error) __throw_system_error(error);
  _M_id = id();
}

// ---- std::condition_variable

void std::condition_variable::wait(unique_lock<mutex> &lock) {
  pthread_cond_wait(native_handle(), lock.mutex()->native_handle());
}
void std::condition_variable::notify_one() noexcept { pthread_cond_signal(native_handle()); }
void std::condition_variable::notify_all() noexcept { pthread_cond_broadcast(native_handle()); }

// ---- std::future: words that change once. Threads wait for a word in one of a few places.

namespace {

struct Place {
  std::mutex lock;
  std::condition_variable changed;
};

Place &placeOf(const unsigned *word) {
  static Place places[64];
  return places[reinterpret_cast<std::uintptr_t>(word) / 16 % 64];
}

// Returns false if the time has come and the word still has the value.
bool waitAt(unsigned *word, unsigned value, bool has_timeout, clockid_t clock, timespec until) {
  Place &place = placeOf(word);
  std::unique_lock<std::mutex> lock(place.lock);
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value) {
    if (!has_timeout) {
      place.changed.wait(lock);
    } else if (pthread_cond_clockwait(place.changed.native_handle(), place.lock.native_handle(),
                                      clock, &until) == ETIMEDOUT) {
      return __atomic_load_n(word, __ATOMIC_ACQUIRE) != value;
    }
  }
  return true;
}

} // namespace

bool std::__atomic_futex_unsigned_base::_M_futex_wait_until(unsigned *word, unsigned value,
                                                            bool has_timeout,
                                                            chrono::seconds seconds,
                                                            chrono::nanoseconds nanoseconds) {
  return waitAt(word, value, has_timeout, CLOCK_REALTIME, {seconds.count(), nanoseconds.count()});
}

#if _GLIBCXX_RELEASE >= 11
bool std::__atomic_futex_unsigned_base::_M_futex_wait_until_steady(
    unsigned *word, unsigned value, bool has_timeout, chrono::seconds seconds,
    chrono::nanoseconds nanoseconds) {
  return waitAt(word, value, has_timeout, CLOCK_MONOTONIC, {seconds.count(), nanoseconds.count()});
}
#endif

void std::__atomic_futex_unsigned_base::_M_futex_notify_all(unsigned *word) {
  Place &place = placeOf(word);
  // A thread that has seen the old value is in its wait now.
  { std::lock_guard<std::mutex> lock(place.lock); }
  place.changed.notify_all();
}

// ---- std::call_once: what it is to call is in variables of the thread. They are hidden, because
// libstdc++.so has its own.

#define HIDDEN __attribute__((visibility("hidden")))

HIDDEN __thread void *std::__once_callable;
HIDDEN __thread void (*std::__once_call)();
extern "C" HIDDEN void __once_proxy() { std::__once_call(); }

// ---- The end of a thread: destructors of thread_local variables, and then what
// std::notify_all_at_thread_exit and the functions ..._at_thread_exit of promises and packaged tasks
// have left to do. libstdc++.so would leave both to the end of the kernel thread.

namespace {

struct Last {
  void (*destroy)(void *);
  void *object;
  Last *next;
};

void destroyAll(void *first) {
  while (first) {
    std::unique_ptr<Last> last(static_cast<Last *>(first));
    last->destroy(last->object);
    first = last->next;
  }
}

void callAll(void *first) {
  while (first) {
    auto *element = static_cast<std::__at_thread_exit_elt *>(first);
    first = element->_M_next;
    element->_M_cb(element);
  }
}

pthread_key_t lastKey, exitKey;

// The keys come before those of the program, so their destructors come first, in this order.
__attribute__((constructor(102))) void makeKeys() {
  if (pthread_key_create(&lastKey, destroyAll) || pthread_key_create(&exitKey, callAll))
    std::terminate();
}

void callAllOfMain() {
  void *first = pthread_getspecific(exitKey);
  pthread_setspecific(exitKey, nullptr);
  callAll(first);
}

void callAtExit(std::__at_thread_exit_elt *element) {
  // The main thread ends by exit(), which calls no destructors of keys.
  static const int called = std::atexit(callAllOfMain);
  static_cast<void>(called);
  element->_M_next = static_cast<std::__at_thread_exit_elt *>(pthread_getspecific(exitKey));
  pthread_setspecific(exitKey, element);
}

struct Notice final : std::__at_thread_exit_elt {
  std::condition_variable &condition;
  std::unique_lock<std::mutex> lock;

  Notice(std::condition_variable &condition, std::unique_lock<std::mutex> &&lock)
      : condition(condition), lock(std::move(lock)) {
    _M_cb = give;
    callAtExit(this);
  }
  static void give(void *self) {
    std::unique_ptr<Notice> notice(static_cast<Notice *>(self));
    notice->lock.unlock();
    notice->condition.notify_all();
  }
};

} // namespace

void std::notify_all_at_thread_exit(condition_variable &condition, unique_lock<mutex> lock) {
  new Notice(condition, std::move(lock));
}

void std::__future_base::_State_baseV2::_Make_ready::_S_run(void *self) {
  std::unique_ptr<_Make_ready> owned(static_cast<_Make_ready *>(self));
  if (auto state = owned->_M_shared_state.lock())
    state->_M_status._M_store_notify_all(_Status::__ready, memory_order_release);
}

void std::__future_base::_State_baseV2::_Make_ready::_M_set() {
  _M_cb = &_Make_ready::_S_run;
  callAtExit(this);
}

extern "C" int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);

extern "C" int __cxa_thread_atexit(void (*destroy)(void *), void *object, void *library) noexcept {
  // The main thread ends by exit(), which calls no destructors of keys.
  if (gettid() == getpid()) return __cxa_thread_atexit_impl(destroy, object, library);
  auto *last = new Last{destroy, object, static_cast<Last *>(pthread_getspecific(lastKey))};
  return pthread_setspecific(lastKey, last);
}
