// Which lanes a runner starts, and which are to give way.
//
// The rule. A lane works for one job at a time. At most one lane waits in the machine's claim queue for each overlapping set of
// GPUs, so that one user's sweep takes turns with everybody's runs; jobs without GPUs wait for nobody and only count against
// the CPUs. A lane that waits is called back when a job of higher priority, or an older one of the same, needs overlapping
// GPUs (of the same request class it need not: with its claim a lane serves the best job of its class), and lanes that hold
// such GPUs end after their present task for a job of higher priority. Older jobs of the same priority do not make younger
// ones give way: those started when the older one could not.
//
// Jobs go by priority. Of equal priority the shorter one goes first, as in the machine's line: of those that come one after
// the other and declare a time, that one goes first which would be through first, had each begun when it was submitted. So a
// shorter job passes those that came before it by no more than its time is shorter, and a long one is not starved. Who
// declares nothing passes nobody and is passed by nobody; where nobody declares it is by age. A lane that waits already stays
// in the line: its ticket there is older than any that could be had for the shorter job.
//
// A lane that the machine's line passes over (it leaves GPUs to others, or what it wants is used without a claim) holds up
// nobody here either, whatever its priority: it stays in line, and the jobs behind it are planned for as if it were not there.
// That it is passed over is known once it stands in line; so those behind it come after it there, and it goes first when it
// can.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "model/job.hpp"
#include "model/queue_view.hpp"

namespace thole::plan {

struct LaneState {
  unsigned number = 0;
  model::JobId job = 0;
  std::uint64_t request_class = 0;
  int priority = 0;
  unsigned gpus = 0;
  bool claimed = false;                          // it has its GPUs and a task; else it waits for them
  bool leaving = false;                          // it was asked to give way
  bool passed_over = false;                      // it waits, and nobody need wait for it
};

// Kinds of requests of one user that stand in line while others go past them: each is a process, and a ticket in the line.
inline constexpr std::size_t most_passed_over = 16;

LaneState waiting_lane(unsigned number, const model::Job& job);   // of the next task of this job

struct LanePlan {
  std::vector<model::JobId> start;
  std::vector<unsigned> give_way;                // waiting ones leave the line, others end after their present task
};

// Jobs that nothing holds back, in the order in which they go.
void put_in_order(std::vector<const model::Job*>& jobs);

// May jobs of these two classes want the same GPU?
using Overlap = std::function<bool(std::uint64_t one, std::uint64_t other)>;

// `candidates`: jobs that nothing holds back. `cpu_lanes`: how many lanes without GPUs there may be.
LanePlan plan_lanes(std::span<const model::Job> candidates, std::span<const LaneState> lanes, unsigned cpu_lanes,
                    const Overlap& overlap);

}  // namespace thole::plan
