// State that libstdc++ keeps for each thread: what is left for the end of a thread, and in which
// order; identities; the functions of call_once; stop callbacks; pools.
// Flags: -std=c++20
// Runtime: product
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <latch>
#include <locale>
#include <memory_resource>
#include <mutex>
#include <random>
#include <semaphore>
#include <set>
#include <sstream>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

using namespace std::chrono_literals;

static void fail(const char *what) {
  std::printf("%s\n", what);
  std::exit(1);
}
static void wait() { std::this_thread::sleep_for(1ms); }

// ---- What is left for the end of a thread

static std::atomic<int> destroyed;
struct Local {
  bool used = false;
  ~Local() {
    wait();
    destroyed += used;
  }
};
thread_local Local local;

static void notices() {
  std::mutex mutex;
  std::condition_variable condition;
  bool done = false;
  std::thread thread([&] {
    local.used = true;
    wait();
    std::unique_lock lock(mutex);
    done = true;
    std::notify_all_at_thread_exit(condition, std::move(lock));
    wait();
  });
  std::unique_lock lock(mutex);
  // Variables of the thread are destroyed before the notice.
  condition.wait(lock, [&] { return done; });
  if (destroyed != 1) fail("the notice came before the destructor");
  lock.unlock();
  thread.join();
}

static void promises() {
  std::promise<int> number;
  std::promise<void> nothing, failed;
  std::promise<std::string &> reference;
  static std::string text = "text";
  std::packaged_task<int(int)> task([](int value) {
    wait();
    return value + 1;
  });
  auto one = number.get_future();
  auto two = nothing.get_future();
  auto three = failed.get_future();
  auto four = reference.get_future();
  auto five = task.get_future();
  std::atomic<bool> is_over = false;
  std::thread thread([&, task = std::move(task)]() mutable {
    local.used = true;
    number.set_value_at_thread_exit(7);
    nothing.set_value_at_thread_exit();
    failed.set_exception_at_thread_exit(std::make_exception_ptr(std::runtime_error("failed")));
    reference.set_value_at_thread_exit(text);
    task.make_ready_at_thread_exit(8);
    if (one.wait_for(2ms) != std::future_status::timeout) fail("ready too early");
    is_over = true;
  });
  int sum = one.get() + five.get();
  if (!is_over || destroyed != 2) fail("ready before the end of the thread");
  two.get();
  try {
    three.get();
    fail("no exception");
  } catch (const std::runtime_error &) {
  }
  if (&four.get() != &text) fail("another reference");
  thread.join();
  std::printf("promises %d\n", sum);
}

// A thread that ends in the middle leaves notices too.
static void leaves_early() {
  static std::mutex mutex;
  static std::condition_variable condition;
  static bool done;
  pthread_t thread;
  auto start = [](void *) -> void * {
    std::unique_lock lock(mutex);
    done = true;
    std::notify_all_at_thread_exit(condition, std::move(lock));
    wait();
    pthread_exit(nullptr);
  };
  if (pthread_create(&thread, nullptr, start, nullptr)) fail("pthread_create");
  std::unique_lock lock(mutex);
  condition.wait(lock, [] { return done; });
  lock.unlock();
  pthread_join(thread, nullptr);
}

// ---- Identities

static void identities() {
  std::set<std::thread::id> all;
  std::mutex mutex;
  std::latch here(20);
  std::vector<std::jthread> threads;
  for (int index = 0; index < 20; index++) {
    threads.emplace_back([&] {
      std::thread::id own = std::this_thread::get_id();
      here.arrive_and_wait();
      if (own != std::this_thread::get_id()) fail("another identity");
      std::lock_guard lock(mutex);
      all.insert(own);
    });
  }
  for (std::jthread &thread : threads) {
    std::thread::id id = thread.get_id();
    thread.join();
    if (!all.count(id)) fail("an unknown identity");
  }
  std::printf("identities %zu\n", all.size());
}

// ---- call_once: its function is in variables of the thread, over waits and in one another

static void once() {
  static std::once_flag outer[8], inner[8];
  static std::atomic<int> calls;
  std::vector<std::jthread> threads;
  for (int index = 0; index < 24; index++) {
    threads.emplace_back([index] {
      int number = index % 8;
      std::call_once(outer[number], [number] {
        wait();
        std::call_once(inner[number], [] {
          wait();
          calls++;
        });
        wait();
        calls++;
      });
    });
  }
  threads.clear();
  std::printf("once %d\n", calls.load());
}

// ---- Stop callbacks: the thread that asks runs them, and another one waits for their end

static void stops() {
  std::atomic<int> ran = 0;
  std::binary_semaphore begun(0);
  std::jthread thread([&](std::stop_token token) {
    std::mutex mutex;
    std::condition_variable_any condition;
    std::stop_callback callback(token, [&] {
      begun.release();
      wait();
      ran++;
    });
    std::unique_lock lock(mutex);
    condition.wait(lock, token, [] { return false; });
    // The callback's destructor waits for the callback.
  });
  wait();
  thread.request_stop();
  begun.acquire();
  thread.join();
  std::printf("stops %d\n", ran.load());
}

// ---- Pools with a part for each thread, random numbers, locales

static void pools() {
  std::pmr::synchronized_pool_resource pool;
  std::atomic<size_t> bytes = 0;
  std::vector<std::jthread> threads;
  for (int index = 0; index < 10; index++) {
    threads.emplace_back([&, index] {
      std::pmr::vector<std::pmr::string> texts(&pool);
      for (int round = 0; round < 50; round++) {
        texts.emplace_back(20 + round, static_cast<char>('a' + index));
        if (round % 10 == 0) wait();
      }
      for (auto &text : texts) {
        if (text.find_first_not_of(static_cast<char>('a' + index)) != text.npos) fail("mixed up");
        bytes += text.size();
      }
      std::random_device device;
      std::ostringstream stream;
      stream.imbue(std::locale::classic());
      wait();
      stream << device() << 1.5;
      if (stream.str().find("1.5") == std::string::npos) fail("no number");
    });
  }
  threads.clear();
  std::printf("pools %zu\n", bytes.load());
}

int main() {
  notices();
  promises();
  leaves_early();
  identities();
  once();
  stops();
  pools();
  // The main thread leaves something too.
  static std::promise<int> last;
  static std::future<int> ready = last.get_future();
  last.set_value_at_thread_exit(1);
  std::atexit([] {});
  std::puts("ended");
}
