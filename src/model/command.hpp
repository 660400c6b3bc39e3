// Words for a command that runs: what is sent to it, and what is left of it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.hpp"

namespace thole::model {

// Linux's numbers; any other may stand here too, to be passed on.
enum class Signal : int {
  hang_up = 1, interrupt = 2, quit = 3, kill = 9, terminate = 15, go_on = 18, stop = 19, terminal_stop = 20
};

enum class SentTo : std::uint8_t {
  group,  // its process group, as Ctrl-C
  all,    // all that came of it, also what has left its group and session
};

inline constexpr Seconds usual_patience{10};     // between INT, TERM and KILL, unless declared (--patience)

// What lives of a command besides itself.
enum class Left : std::uint8_t {
  nothing,
  something,
  unsure,  // it forks faster than it can be read; never taken for nothing
  unseen,  // something, and no process of it can be told from a stranger's (/proc shows another pid namespace)
};

// How a command ended, as its parent is told.
struct HowEnded {
  std::optional<int> exit_code, signal;          // neither: nobody knows
  bool core = false;
  std::optional<std::uint64_t> peak_memory_kib;  // of the largest of its processes that were waited for
};

}  // namespace thole::model
