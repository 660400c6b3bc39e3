// What the load of the machine allowed: the times in which somebody who wanted to run did not get to. A promise is late, and a
// wake-up lost, only by what these times do not explain.
//
// A stall is noted when it is over: a plain sleep that took too long (anybody notes his own), or a process that the kernel says
// has stood in the run queue (/proc/PID/schedstat, looked at from outside, and once more when it has died). So what seems late
// is written down with the time it covers, and judged when everything is over.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <map>

#include "base/time.hpp"

namespace thole::torture {

std::int64_t steady_ms();

// In memory that all processes share.
class Load {
 public:
  // ms: enough for a look by the clock to come before the wake-up of an end
  static constexpr std::int64_t short_stall = 20;
  static constexpr std::int64_t long_stall = 200;      // enough for a promise; less is what two dozen workers do to each other

  void note_stall(std::int64_t from, std::int64_t to);
  void note_late_promise(std::int64_t promised_at, std::int64_t late);   // taken now
  void note_late_wake();                                                 // now

  // ms of that time in which somebody was, for so long at least.
  std::int64_t stalled(std::int64_t from, std::int64_t to, std::int64_t least) const;
  std::int64_t longest() const;

  struct Verdict {
    unsigned broken = 0, lost = 0, late_by_load = 0, clock_by_load = 0;
    std::int64_t latest = 0;                      // of the broken, beyond what the load explains
    bool overflow = false;                        // there was more than could be written down
  };
  Verdict judge(std::int64_t slack) const;

 private:
  struct Interval {
    std::atomic<std::int64_t> from, to;
  };
  struct Late {
    std::atomic<std::int64_t> from, to, late;     // late 0: a wake-up
  };
  unsigned stalls() const { return std::min<unsigned>(stalls_count_, static_cast<unsigned>(stalls_.size())); }

  std::array<Interval, 1 << 18> stalls_;
  std::array<Late, 4096> late_;
  std::atomic<unsigned> stalls_count_, late_count_;
};

// Looks at how long processes have stood in the run queue. Used by their parent.
class Watch {
 public:
  explicit Watch(Load& load) : load_(load), last_(steady_ms()) {}
  template <typename Pids>
  void look(const Pids& pids) {
    const std::int64_t now = steady_ms();
    if (now - last_ < every) return;
    for (const pid_t pid : pids) look_at(pid, now);
    last_ = now;
  }
  void forget(pid_t pid) {                        // it has died and is not reaped yet
    look_at(pid, steady_ms());
    waited_.erase(pid);
  }

 private:
  static constexpr std::int64_t every = 50;
  void look_at(pid_t pid, std::int64_t now);
  Load& load_;
  std::int64_t last_;
  std::map<pid_t, std::int64_t> waited_;          // ms in the run queue since it began
};

}  // namespace thole::torture
