// The queue as people see it: each job with its state, its place, what it waits for and when it may be over.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/overview.hpp"
#include "model/job.hpp"
#include "port/job_store.hpp"

namespace thole::app {

// Why tasks of a job do not run now. `kind` is stable, for programs: "held", "dependency", "begin", "at-most", "retry",
// "drain", "jobs" (others of this queue go first), "line" (the machine's line for GPUs), "start" (it is about to start).
struct JobWait {
  std::string kind;
  std::string text;
  std::uint64_t jobs_before = 0;                 // kind "jobs": ours that go before it
};

struct JobLine {
  model::Job job;                                // its counts as counts_of() gives them
  std::string state;                             // queued, held, running, paused, done, failed, lost, cancelled, skipped
  std::vector<std::string> gpus;                 // labels of those that its running tasks have
  std::vector<std::string> last_gpus;            // … and of those that its one task had, where that has ended
  std::optional<JobWait> wait;
  std::optional<WallTime> expected_end;          // where tasks have ended already, and some run
  std::optional<model::Task> only_task;          // of a job with one task, once it has started
};

struct JobList {
  std::vector<JobLine> lines;                    // ended ones first, then running, then queued in the order in which they go
  std::uint64_t untold_queued = 0, untold_ended = 0;   // left out because of the limits
  model::TaskCounts tasks;                       // of all jobs looked at, told or not
  bool draining = false;
  WallTime now{};
};

struct JobListWish {
  std::optional<std::vector<port::Selection>> which;   // nothing: all
  std::set<model::TaskState> states;
  std::vector<std::string> tags;
  std::optional<WallTime> ended_since;           // ended ones only if not before
  std::size_t most_queued = ~std::size_t{0}, most_ended = ~std::size_t{0};
};

// `machine`: claims and line as they are; null where they could not be read.
JobList list_jobs(port::JobReader& jobs, const Overview* machine, const JobListWish& wish, WallTime now);

// How many tasks are in which state as people see it: those that a held job has queued are held.
model::TaskCounts counts_of(const model::Job& job);

// Of the tasks from `first` to `last` those that have left the plain queued state, in one of `states` (none: any), seen so.
std::vector<model::Task> tasks_of(port::JobReader& jobs, const model::Job& job, model::TaskIndex first, model::TaskIndex last,
                                  const std::set<model::TaskState>& states);

// One word for a job as a whole, and for one that has ended: the worst that became of a task of it.
std::string state_of(const model::Job& job);
std::string state_of(const model::TaskCounts& counts);
std::string outcome_of(const model::TaskCounts& counts);

// What people call the unit of this key; the key itself where the machine is not known, or has it no more.
std::string label_of(const std::string& key, const Overview* machine);

// When the rest will be over, if it goes on as so far.
std::optional<WallTime> expected_end(const model::Job& job, WallTime now);

}  // namespace thole::app
