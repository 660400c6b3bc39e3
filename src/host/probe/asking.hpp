// Who asks a driver: one question of a user is asked at a time.
//
// How this works. Who asks holds a flock, on an open file description that his probe shares. So a probe that cannot be killed
// goes on holding it, whether or not its parent lives: the kernel itself tells the next run not to start another, and lets go
// when the driver lets go. The text in the file says who asks, and since when. A parent that abandons its probe writes
// `abandoned` there, so that later runs need not wait to find out. Who was stopped (Ctrl-Z) while he asked would keep the lock
// for as long as he likes: whoever sees that deletes the file, and goes on with one of his own. So each of those who are
// stopped may have left one probe in the driver, and nobody another.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/fd.hpp"
#include "base/time.hpp"

namespace thole::host {

class AskingLock {
 public:
  explicit AskingLock(std::string path) : path_(std::move(path)) {}

  // Why it cannot be had: a clause, with what is known of who has it.
  struct Occupied {
    std::string why;
    std::optional<WallTime> since;
  };
  // Waits for it. Where no file can be made there is none to take, and anybody asks.
  std::optional<Occupied> take(SteadyTime deadline);
  void give_back() const;

  bool has_file() const { return static_cast<bool>(lock_); }
  int descriptor() const { return lock_.get(); }           // for the probe
  void asks(pid_t probe) const { note("asking", probe); }
  std::optional<WallTime> asked_since() const;
  void leave_to(pid_t abandoned);

 private:
  void note(const char* what, pid_t probe) const;
  bool is_in_place() const;

  std::string path_;
  Fd lock_;
};

}  // namespace thole::host
