// Claims and tickets as data: who has what, and who waits for what.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "model/queue_view.hpp"

namespace thole::model {

// One holder of one unit, as recorded in `who` and checked against the kernel.
struct Holding {
  std::string key;                          // the unit's key
  std::string id;                           // claim id: 16 lower-case hex digits; "" when the record does not match
  bool held = false;                        // the kernel says the lock is taken (or this berth is)
  bool verified = false;                    // the record agrees with /proc/locks and the start time of the pid
  bool shared = false;
  bool share_with_any = false;
  std::optional<std::uint64_t> memory_mib;  // a sharer's budget
  uid_t uid = static_cast<uid_t>(-1);       // of the process that took the lock, where it can be seen; else the record's
  std::string user;                         // name of uid, or its number
  pid_t pid = 0;                            // the process that holds the lock; 0 unknown
  WallTime since{};
  std::optional<WallTime> until;            // declared end
  bool overdue = false;                     // let go at its end but its process still runs
  std::string command;                      // as recorded; not yet made printable
};

// Who holds what, and until when, at one moment.
struct Held {
  unsigned slot = 0, berth = 0;                // the latter: of a sharer; 0: exclusively
  std::string id;                              // "" where the kernel tells nobody's note
  std::optional<WallTime> until;
  bool operator==(const Held&) const = default;
};
using Moment = std::vector<Held>;

// Has anybody taken something since, or declared a later end? Who ends earlier, or has gone, keeps nobody waiting.
inline bool holds_longer(const Moment& now, const Moment& then) {
  return std::ranges::any_of(now, [&](const Held& one) {
    return std::ranges::none_of(then, [&](const Held& before) {
      const bool no_later = one.until == before.until || (one.until && (!before.until || *one.until <= *before.until));
      return one.slot == before.slot && one.berth == before.berth && one.id == before.id && no_later;
    });
  });
}

// One waiting request.
struct Waiting : Terms {
  std::uint64_t ticket = 0;
  uid_t uid = 0;
  std::string user;
  pid_t pid = 0;
  std::vector<std::string> eligible;        // keys of units that would do
  WallTime since{};
  bool mine = false;
  bool vouched = true;                      // its user says so himself; else it keeps nobody waiting, whoever wrote it
  bool stopped = false;                     // its process is (Ctrl-Z): others go before it, and it is promised no start
};

}  // namespace thole::model
