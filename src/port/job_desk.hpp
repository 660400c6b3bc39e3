// Port: where people hand in jobs and change those that are in the durable queue.
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "model/job.hpp"
#include "model/job_items.hpp"
#include "port/job_reader.hpp"

namespace thole::port {

// One job to be submitted. `after_earlier` names others of the same call, by position: it must be an earlier one.
struct Submission {
  model::JobSpec spec;
  model::JobTerms terms;
  std::uint64_t tasks = 1;
  model::Items items{0};
  std::vector<std::pair<std::size_t, model::After>> after_earlier;
  bool if_absent = false;                          // not when a job of this name has not ended yet: that one is given instead
};
struct Submitted {
  model::JobId id = 0;
  bool existed = false;
};

// hold keeps queued tasks (or a whole job) from starting, resume undoes it; pause and proceed mark running tasks as stopped or
// not; retry queues what failed, was lost, cancelled or skipped (of a task selection: done, too) once more. give_up cancels,
// and ends what the runner does not see without its end having been seen.
enum class Verb { cancel, hold, resume, pause, proceed, retry, give_up };

// What a verb did to one job.
struct Altered {
  model::JobId job = 0;
  std::uint64_t changed = 0;                       // tasks whose state (or mark) is now another
  std::vector<model::Task> running;                // cancel, pause, proceed: marked; their lanes have to act
  std::string stays{};                             // retry of several: why this one stays skipped, with the cure
};

// Terms to change; what is absent stays.
struct TermsChange {
  std::optional<int> priority;
  std::optional<std::optional<WallTime>> begin;
  std::optional<std::optional<std::uint64_t>> at_most;
  std::optional<std::optional<Seconds>> time;
  std::optional<std::vector<model::Dependency>> after;   // a cycle throws Error(usage) that names it
};

struct Keep {
  std::optional<Millis> ended_for;                 // forget jobs that ended longer ago
  std::optional<std::uint64_t> jobs;               // beyond the newest so many that ended
  std::uint64_t at_once = 10'000;                  // tasks to delete in this call at most
};

class JobDesk {
 public:
  virtual ~JobDesk() = default;
  // Returns when all of them are on the disk. Throws Error(usage) for a dependency on no job.
  virtual std::vector<Submitted> submit(std::span<const Submission> jobs, WallTime now) = 0;
  virtual std::vector<Altered> alter(std::span<const Selection> which, Verb verb, WallTime now) = 0;
  virtual void edit(std::span<const model::JobId> jobs, const TermsChange& change, WallTime now) = 0;   // all or none
  virtual void drain(bool on) = 0;                 // while on, no task can be taken
  // Forgets ended jobs nobody depends on; their numbers, so that logs can go. Fewer than there are to go: call again.
  virtual std::vector<model::JobId> prune(const Keep& keep, WallTime now) = 0;
};

}  // namespace thole::port
