// Whose the processes are that have become our children: all that live below us do, when what has started them ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "host/process/tree.hpp"

namespace thole::host {

// The claim itself, or one that was made inside it.
bool is_within(const std::string& shown, const std::string& claim);

// Whether it is a task of a queue, or was started by one: what a lane leaves to us that was killed. It keeps the lock of a
// lane, or shows the mark of a task (THOLE_TASK): for a lane (`lane`: what its own marks end with) one of another lane, for who
// is none a mark that we have not inherited ourselves, as part of a task, and none of these claims. What has a lock of ours is
// of ours, whatever it shows; who cannot be told is none.
bool is_of_a_lost_lane(pid_t pid, std::span<const std::string> claims = {}, std::string_view lane = {});

// What the mark of a task ends with: the number of its lane, and its queue.
std::string_view lane_of_mark(std::string_view mark);

// The form of such a mark: "JOB.TASK.RUN.", 16 digits of a hash, "@", the number of its lane (also 16, and "@"), its directory.
bool is_mark_of_a_task(const std::string& word);

// Of which claim it is, as far as that can be told.
struct Origin {
  std::string claim;                 // that it shows; empty: none
  // It shows nothing that could be read, and may be of what we have begun at `since` or later: then it was started, and by our
  // user. For the sake of those who are to have a GPU alone it counts as that.
  bool may_be_ours = false;
};
Origin origin_of(const ProcessStat& child, std::uint64_t since);

}  // namespace thole::host
