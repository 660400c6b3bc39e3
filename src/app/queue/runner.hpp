// The runner of a queue: the one process that decides which job gets the next lane, and that sees to what dead lanes have left.
//
// How this works. It sleeps until somebody stirs it, a lane of its own ends, something that a dead lane left behind ends, or a
// job's time has come; nothing is looked at in between. Each time it settles what dead lanes have left (the crash rules,
// below), asks the store which jobs could go, and starts or calls back lanes as plan/job/lanes.hpp says. Killing it costs
// nothing: the lanes go on, and the next runner finds them by their locks.
//
// Crash rules. A task that the store calls running in a lane that nobody has the lock of:
//   its record does not name it, or as taken only   its command never began: queued again; but of a record that is a copy, as
//                                                   below
//   its record has the end                          that end goes into the store
//   its command was reached, and the mark of this start is still on some process: that is waited for
//   its command was reached, and nothing of it lives, or the machine has started anew: lost
#pragma once

#include "app/queue/ports.hpp"
#include "port/wall_alarm.hpp"

namespace thole::app {

struct RunnerOptions {
  unsigned cpu_lanes = 1;                        // tasks without GPUs at once
  Millis grace{5'000};                           // with nothing to do it stays this long
  port::Keep keep;                               // of the past
  bool relieves = false;                         // another one, which sees less, is to leave its seat for this one
};

// Returns when there is nothing left to do, or another runner lives.
void run_runner(const QueuePorts& ports, port::WallAlarm& alarm, const RunnerOptions& options);

}  // namespace thole::app
