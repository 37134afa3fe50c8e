// The part of libstdc++ (of GCC 8 and later) that starts threads and waits, as code of the program.
//
// These functions are in libstdc++.so, where the pass does not see them. `duality c++` links this
// file as bitcode in front of that library. So std::thread starts tasks, and its waits are
// primitives. Everything else is in headers: mutexes, std::async, std::jthread, std::call_once.
#include <cerrno>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

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

// ---- thread_local variables with destructors

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

pthread_key_t lastKey() {
  static const pthread_key_t key = [] {
    pthread_key_t made;
    if (pthread_key_create(&made, destroyAll)) std::terminate();
    return made;
  }();
  return key;
}

} // namespace

extern "C" int __cxa_thread_atexit_impl(void (*)(void *), void *, void *);

extern "C" int __cxa_thread_atexit(void (*destroy)(void *), void *object, void *library) noexcept {
  // The main thread ends by exit(), which calls no destructors of keys.
  if (gettid() == getpid()) return __cxa_thread_atexit_impl(destroy, object, library);
  pthread_key_t key = lastKey();
  auto *last = new Last{destroy, object, static_cast<Last *>(pthread_getspecific(key))};
  return pthread_setspecific(key, last);
}
