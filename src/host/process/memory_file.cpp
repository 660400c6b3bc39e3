#include "host/process/memory_file.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "base/fd.hpp"
#include "base/time.hpp"

namespace thole::host {
namespace {

// A process that forks keeps that lock while its page tables are copied: seconds, where it has hundreds of GiB. Anybody can
// have a crowd of processes whose memory is locked, and they are waited for one after the other: so the time that comes to is
// limited, for each purpose by itself. A crowd of others takes nothing of the patience with our own: what these left behind is
// told by what is read here.
struct Purse {
  using Time = std::chrono::nanoseconds;
  const Time each, least;                        // the patience with one, and what remains of it for a crowd
  const Time most;                               // at once; after that an eighth of the time that passes
  std::atomic<Time::rep> full_at{0};             // by the steady clock: when all that was spent will be forgotten

  static Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }
  // The more was waited for already the less: what one has after the others shrinks by a quarter each time.
  Time patience() const {
    const Time left = most - std::max(Time{0}, Time{full_at.load()} - now()) / regained;
    return std::clamp(left / 4, least, each);
  }
  void has_waited(Time time, bool in_vain) {
    const Time spent = in_vain ? time : std::max(Time{0}, time - a_read);
    full_at = std::max(full_at.load(), now().count()) + (spent * regained).count();
  }

 private:
  static constexpr int regained = 8;
  static constexpr Time a_read = Millis{5};
};

constinit Purse to_show{Millis{250}, Millis{0}, Millis{1000}, {}}, to_decide_ours{Millis{2000}, Millis{20}, Millis{8000}, {}},
    to_decide_others{Millis{2000}, Millis{20}, Millis{8000}, {}};
constexpr Millis shortest_patience{1};           // for less nobody is asked
constexpr std::size_t most_to_show = 128;        // threads that others can make us keep, whose number may be limited
constexpr Millis before_next_try{5};             // to start one
constexpr std::size_t stack = 256u << 10;        // what `ulimit -s` gives each may be all that there is

Purse& purse_for(const std::string& path, MemoryFile::For what) {
  if (what == MemoryFile::For::show) return to_show;
  struct stat about {};
  const bool ours = ::stat(path.substr(0, path.rfind('/')).c_str(), &about) == 0 && about.st_uid == ::geteuid();
  return ours ? to_decide_ours : to_decide_others;
}

// The memories that a thread of this process waits for. Without a lock, so that a fork of a program with threads finds nothing
// locked for good: the child has none of these threads.
class Awaited {
 public:
  bool has(std::uint64_t memory) {
    forget_those_of_parent();
    return std::ranges::any_of(memories_, [&](const auto& one) { return one.load() == memory; });
  }
  std::size_t count() const {
    return static_cast<std::size_t>(std::ranges::count_if(memories_, [](const auto& one) { return one.load() != 0; }));
  }
  bool is_full_for(MemoryFile::For what) const {
    return count() >= (what == MemoryFile::For::show ? most_to_show : memories_.size());
  }
  void add(std::uint64_t memory) { replace(0, memory); }
  void remove(std::uint64_t memory) { replace(memory, 0); }

 private:
  void forget_those_of_parent() {
    const pid_t us = ::getpid();
    if (process_.exchange(us) != us)
      for (auto& memory : memories_) memory = 0;
  }
  void replace(std::uint64_t old, std::uint64_t by) {
    for (auto& memory : memories_) {
      std::uint64_t expected = old;
      if (memory.compare_exchange_strong(expected, by)) return;
    }
  }

  std::array<std::atomic<std::uint64_t>, 1024> memories_{};
  std::atomic<pid_t> process_{0};
};

Awaited awaited;                                 // constant: nothing is destroyed under a thread that comes back at the end

std::uint64_t memory_of(const std::string& path) {
  return std::hash<std::string>{}(path.substr(0, path.rfind('/'))) | 1;
}

MemoryText read_from(Fd& file, const std::string& path, std::size_t most) {
  if (!file) file = open_at(AT_FDCWD, path.c_str(), O_RDONLY);
  if (!file) return {"", errno};
  for (std::size_t size = std::min<std::size_t>(most, 64u << 10);;) {
    std::string text(size, '\0');
    const ssize_t n = ::pread(file.get(), text.data(), size, 0);
    const int failed = n < 0 ? errno : 0;
    if (failed == EINTR) continue;
    if (failed != 0) return {"", failed};
    text.resize(static_cast<std::size_t>(n));
    if (text.size() < size || size == most) return {std::move(text), 0};
    size = std::min(most, size * 8);
  }
}

}  // namespace

// Of the thread too, for as long as it takes.
struct MemoryFile::Reading {
  const std::string path;
  const For what;
  const std::uint64_t memory = memory_of(path);
  Fd file{};
  MemoryText found{};
  std::mutex mutex{};
  std::condition_variable ended{};
  enum { idle, under_way, left_alone } state = idle;

  void work(std::size_t most) {
    MemoryText text{"", ENOMEM};
    try {
      text = read_from(file, path, most);
    } catch (const std::bad_alloc&) {
    }
    const std::lock_guard lock(mutex);
    found = std::move(text);
    if (state == left_alone) awaited.remove(memory);
    state = idle;
    ended.notify_all();
  }

  bool ends_by(SteadyTime deadline) {
    std::unique_lock lock(mutex);
    if (ended.wait_until(lock, deadline, [this] { return state == idle; })) return true;
    state = left_alone;
    awaited.add(memory);
    return false;
  }
};

namespace {

// With a stack of its own size. Where the program's thread-local variables leave no room in that, the usual one.
template <class Work>
bool start_thread(pthread_t& thread, Work work) {
  const auto run = [](void* argument) -> void* {
    const std::unique_ptr<Work> its(static_cast<Work*>(argument));
    (*its)();
    return nullptr;
  };
  auto argument = std::make_unique<Work>(std::move(work));
  pthread_attr_t attributes;
  if (::pthread_attr_init(&attributes) != 0) return false;
  ::pthread_attr_setstacksize(&attributes, stack);
  int failed = ::pthread_create(&thread, &attributes, run, argument.get());
  ::pthread_attr_destroy(&attributes);
  if (failed == EINVAL) failed = ::pthread_create(&thread, nullptr, run, argument.get());
  if (failed == 0) static_cast<void>(argument.release());
  return failed == 0;
}

}  // namespace

MemoryFile::MemoryFile(std::string path, For what) : reading_(std::make_shared<Reading>(std::move(path), what)) {}

// Without a thread nothing is read: this one might never come back.
MemoryText MemoryFile::read(std::size_t most) {
  Reading& reading = *reading_;
  if (awaited.has(reading.memory) || awaited.is_full_for(reading.what)) return {"", ETIMEDOUT};
  Purse& purse = purse_for(reading.path, reading.what);
  const auto patience = purse.patience();
  if (patience < shortest_patience) return {"", ETIMEDOUT};
  const SteadyTime begun = std::chrono::steady_clock::now(), deadline = begun + patience;
  reading.state = Reading::under_way;
  sigset_t all, before;                          // signals are for the threads of the program
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread{};
  bool started = start_thread(thread, [shared = reading_, most] { shared->work(most); });
  while (!started && reading.what == For::decide && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(before_next_try);
    started = start_thread(thread, [shared = reading_, most] { shared->work(most); });
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) reading.state = Reading::idle;
  const bool ended = started && reading.ends_by(deadline);
  purse.has_waited(std::chrono::steady_clock::now() - begun, !ended);
  if (!ended) {
    if (started) ::pthread_detach(thread);
    return {"", ETIMEDOUT};
  }
  ::pthread_join(thread, nullptr);
  return std::move(reading.found);
}

MemoryText command_line(const std::string& directory, std::size_t most) {
  MemoryText line = MemoryFile(directory + "/cmdline", MemoryFile::For::show).read(most);
  while (!line.text.empty() && line.text.back() == '\0') line.text.pop_back();
  std::ranges::replace(line.text, '\0', ' ');
  return line;
}

}  // namespace thole::host
