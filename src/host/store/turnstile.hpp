// The turnstile: writers of the queue's file go through it one by one, in the kernel's order and asleep, so that SQLite, which
// would have them try again and again, never finds the file busy. Who has waited for 2 s says who is in there: a process that
// was stopped keeps all others out.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "base/fd.hpp"
#include "base/time.hpp"

namespace thole::host {

class Turnstile {
 public:
  using Said = std::function<bool(const std::string& who_keeps_it)>;   // called from another thread; false: not said

  explicit Turnstile(const std::string& path, Said said = {});   // makes the file (0600) where there is none

  // Passed through while it lives.
  class Pass {
   public:
    explicit Pass(int fd) : fd_(fd) {}
    Pass(Pass&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    Pass& operator=(Pass&&) = delete;
    ~Pass();

   private:
    int fd_;
  };
  Pass pass();
  bool lets_pass() const { return static_cast<bool>(file_); }   // not where the disk can only be read

 private:
  void wait();

  std::string path_;
  Said said_;
  Fd file_;
};

// Who keeps the turnstile of the queue in this directory for longer than `patience`; nothing where it was open meanwhile, where
// there is none, or where it cannot be opened. Never waits longer.
std::optional<std::string> turnstile_kept(const std::string& directory, Millis patience);

}  // namespace thole::host
