// The queue as people see it: each job with its state, its number in line, what it waits for and when it may be over.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/show/overview.hpp"
#include "model/job.hpp"
#include "port/job_store.hpp"
#include "port/queue_door.hpp"

namespace thole::app {

// Why tasks of a job do not run now. `kind` is stable, for programs: "held", "dependency", "begin", "at-most", "retry",
// "drain", "jobs" (others of this queue go first), "line" (the machine's line for GPUs), "again" (its GPUs could not be had at
// all, and are asked for again later), "disk" (the queue's has no room), "start" (it is about to start).
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
  // Of its running tasks those that have ended, which could not be written; since when, where they all have.
  std::vector<std::pair<model::TaskIndex, port::NotedEnd>> unwritten;
  std::optional<WallTime> all_over;
};

struct JobList {
  std::vector<JobLine> lines;                    // ended ones first, then running, then queued in the order in which they go
  std::uint64_t untold_queued = 0, untold_ended = 0;   // left out because of the limits
  model::TaskCounts tasks;                       // of all jobs looked at, told or not
  bool draining = false;
  WallTime now{};
  std::string full_disk{};                       // of the queue, whose directory this is; "": it has room
};

struct JobListWish {
  std::optional<std::vector<port::Selection>> which;   // nothing: all
  std::set<model::TaskState> states;
  std::vector<std::string> tags;
  std::optional<WallTime> ended_since;           // ended ones only if not before
  std::size_t most_queued = ~std::size_t{0}, most_ended = ~std::size_t{0};
};

// `machine`: claims and line as they are; null where they could not be read. `door`: what runner and lanes have noted besides
// what is stored; null where only that counts.
JobList list_jobs(port::JobReader& jobs, const Overview* machine, const JobListWish& wish, WallTime now,
                  port::QueueDoor* door = nullptr);

// Of a running task the end that its lane has noted, and could not write for a while: any end is not written for a moment.
std::optional<port::NotedEnd> unwritten_end(port::LaneDoor& door, const model::Task& task, WallTime now);

// "disk full: /home/anna/queue", or that there is room by now.
std::string why_unwritten(const std::string& full_disk);

// What may be false of what is stored, and whose disk can only be read; another mount of it may still be written to.
std::string why_perhaps_old(const std::string& read_only_disk);

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
