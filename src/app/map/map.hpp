// `thole map`: one command for each of many items, side by side on claimed GPUs; not durable, the fastest launcher there is.
//
// How it works. A lane is a claim and the bays of the tasks that run on it, one or several at once. One loop sleeps until a
// task ends, an item comes, GPUs are won or a time is up, and then starts tasks wherever a bay is idle. GPUs are claimed one
// lane after the other while there is something to run on them, and given back when there is not. Where somebody else waits for
// the GPUs of a lane, it takes no further task, lets go and lines up again: so the other's turn comes with the end of a task.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "app/claim/run.hpp"
#include "app/map/items.hpp"
#include "base/aside.hpp"
#include "plan/job/halt.hpp"
#include "plan/job/map_template.hpp"
#include "port/task_pool.hpp"

namespace thole::app {

struct MapRequest {
  RunRequest lane;                       // what each lane claims and how its tasks are bound; its time is the limit of one task
  unsigned lanes = 0;                    // at most; 0: as many as get GPUs
  unsigned per_lane = 1;                 // tasks at once on the GPUs of one lane
  unsigned tries = 1;
  plan::Halt halt;
  std::vector<bool> done;                // numbers of tasks that need not run again
  Millis patience = model::usual_patience;
};

// A task; its cells are the item's.
struct MapTask {
  std::uint64_t number = 0;              // from 1, in the order of the items
  std::uint64_t order = 0;               // from 0, of those that were started
  std::vector<std::string> cells;
  std::size_t bay = 0;                   // from 1
  unsigned tries = 0;
  WallTime started{};                    // its last try
};

struct MapEnd {
  port::Ended how;
  std::string problem;                   // it could not be started, or its output may not be all: why
  std::chrono::nanoseconds took{};
  port::TaskOutput output;
  const std::vector<std::string>& words;
  const Acquired& on;                    // its lane's

  bool succeeded() const { return how.exit_code == 0 && !how.time_limit && !how.released && output.cut.empty(); }
  // Whoever was ended at its limit or by a release has not succeeded, also where it made a 0 of that: 1. Nor has one whose
  // output may have been lost.
  int status() const {
    const int status = how.signal ? 128 + *how.signal : how.exit_code.value_or(125);
    return status == 0 && !succeeded() ? 1 : status;
  }
};

struct MapEvents {
  RunEvents claims;                      // told from aside, but for left_behind
  std::function<void(const MapTask&, bool errors, std::string_view bytes)> text;  // as it comes, with OutputTo::pipes
  std::function<void(const MapTask&)> text_ends;      // of each try
  std::function<void(const MapTask&, MapEnd)> ended;  // of its last try; not of what was cut short

  // Whether what was told has not been taken, and nothing more should come: nothing more is begun or read then, and idle GPUs
  // go back. That may have changed when the descriptor is readable. May throw: then all is ended.
  std::function<bool()> is_stalled;
  int goes_on = -1;
};

struct MapPorts {
  Site& site;
  BindSite bind;
  DoorMaker make_door;
  Aside& aside;                          // claims
  port::TaskPool& pool;
  ItemSource& items;
  const plan::MapTemplate& command;
};

struct MapOutcome {
  plan::Tally counts;
  std::uint64_t cut_short = 0;           // ended by --halt now, or with us
  std::optional<int> halted_by;          // the status of the task that halted it all
  std::optional<int> interrupted;        // the signal that did
  std::exception_ptr failure;            // what we could not do, and so ended; what we had heard of by then has been told
};

// `failure` is what acquire throws where there is nothing to run on, and Error(usage) after a bad item. Nothing runs any more.
MapOutcome map(MapPorts ports, const MapRequest& wanted, const MapEvents& events);

}  // namespace thole::app
