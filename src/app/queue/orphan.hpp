// A task whose lane is dead, as a runner looks after it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/queue/ports.hpp"
#include "app/queue/trouble.hpp"
#include "model/boot.hpp"
#include "model/lane_record.hpp"
#include "port/lanes.hpp"
#include "port/seen_record.hpp"

namespace thole::app {

struct Orphan {
  model::Task task;
  std::shared_ptr<const port::SeenRecord> record;
  bool is_copy = false;                        // of another queue's lane
  bool of_another_moment = false;              // than its lane wrote it last
  port::RunTrace run{};
  model::Boot boot = model::Boot::this_one;    // of its record
  bool looked_at = false;                      // what follows is known
  bool seen = false;                           // something of it that lived, or the end of its command
  bool of_itself = false;                      // some of its processes are known as its own
  std::vector<Fd> processes{};
  Fd lock{};                                   // hangs up when nothing has the lane's lock; empty: nothing has it
  std::optional<bool> paused{};                // as we have told it; nothing: it has not been told yet
  SteadyTime told_at{};
  Millis told_again_after{};                   // a paused one
  std::optional<SteadyTime> limit{};           // when its time is over; nothing while it is paused
  Millis left{0};                              // of that time, while it is paused
  std::int32_t limit_clock = 0;                // as in its record, which a full disk may not take
  Millis patience{0};
  unsigned step = 0;                           // of its end: INT, TERM, KILL; its record has it, too
  std::optional<SteadyTime> next_step{};
  SteadyTime told_step_at{};                   // the step before that
  bool unwritten = false;                      // some of that is not in its record
  bool over_time = false;                      // that is why it was to be ended …
  bool was_told_to_end = false;                // … and something of it lived to hear that
  bool ended_by_itself = false;                // its command, before it was told anything
  bool lingers = false;                        // what its command leaves behind
  bool rest_is_ended = false;                  // that: from now on
  std::optional<SteadyTime> in_doubt_until{};  // whether its command was taken down with everything
  std::optional<port::UnseenRun> unseen{};     // what lives of it would not be seen from here
  std::string hidden{};                        // why nothing of it could be signalled, where that is so; it is waited for
  Trouble trouble{};
};

inline bool share_lane(const Orphan& one, const Orphan& other) { return &one != &other && one.task.lane == other.task.lane; }
inline pid_t command_of(const Orphan& orphan) { return orphan.is_copy ? 0 : orphan.run.command; }
inline const model::LaneRecord* lane_record(const Orphan& orphan) { return orphan.record ? orphan.record->get() : nullptr; }

}  // namespace thole::app
