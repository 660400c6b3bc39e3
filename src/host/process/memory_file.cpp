#include "host/process/memory_file.hpp"

#include <fcntl.h>
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
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/fd.hpp"
#include "base/time.hpp"

namespace thole::host {
namespace {

// A process that forks keeps that lock while its page tables are copied: seconds, where it has hundreds of GiB.
constexpr Millis to_show{250}, to_decide{2000};
constexpr std::size_t few = 4;                   // that are waited for; whom others wait for besides is given this:
constexpr Millis of_a_crowd{20};

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
  bool is_full() const { return count() == memories_.size(); }
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

// Where there is nothing to wait with: no thread may be started.
bool is_short(MemoryFile::For what) { return what == MemoryFile::For::show || awaited.count() > 0; }

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
    MemoryText text = read_from(file, path, most);
    const std::lock_guard lock(mutex);
    found = std::move(text);
    if (state == left_alone) awaited.remove(memory);
    state = idle;
    ended.notify_all();
  }

  bool ends_in_time() {
    const Millis patience = awaited.count() >= few ? of_a_crowd : what == For::show ? to_show : to_decide;
    std::unique_lock lock(mutex);
    if (ended.wait_for(lock, patience, [this] { return state == idle; })) return true;
    state = left_alone;
    awaited.add(memory);
    return false;
  }
};

MemoryFile::MemoryFile(std::string path, For what) : reading_(std::make_shared<Reading>(std::move(path), what)) {}

MemoryText MemoryFile::read(std::size_t most) {
  Reading& reading = *reading_;
  if (awaited.has(reading.memory) || awaited.is_full()) return {"", ETIMEDOUT};
  reading.state = Reading::under_way;
  sigset_t all, before;                          // signals are for the threads of the program
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread;
  try {
    thread = std::thread([shared = reading_, most] { shared->work(most); });
  } catch (const std::system_error&) {
    reading.state = Reading::idle;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!thread.joinable() && is_short(reading.what)) return {"", ETIMEDOUT};
  if (!thread.joinable()) return read_from(reading.file, reading.path, most);
  if (!reading.ends_in_time()) {
    thread.detach();
    return {"", ETIMEDOUT};
  }
  thread.join();
  return std::move(reading.found);
}

MemoryText command_line(const std::string& directory, std::size_t most) {
  MemoryText line = MemoryFile(directory + "/cmdline", MemoryFile::For::show).read(most);
  while (!line.text.empty() && line.text.back() == '\0') line.text.pop_back();
  std::ranges::replace(line.text, '\0', ' ');
  return line;
}

}  // namespace thole::host
