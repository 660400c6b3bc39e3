// Port: looking into the durable queue: lists of jobs and tasks, what is known of one of them, and waking when something
// changes.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "model/job.hpp"

namespace thole::port {

// Jobs [first, last], or some tasks of one job.
struct Selection {
  model::JobId first = 0, last = 0;
  std::optional<std::pair<model::TaskIndex, model::TaskIndex>> tasks;   // of job `first`; from, to
};

struct JobQuery {
  std::vector<Selection> ids;                      // only these jobs (their tasks do not matter here); empty = all
  std::vector<std::string> tags;                   // with all of these
  std::string name;
  bool unended_only = false;
  std::optional<WallTime> ended_since;             // ended ones only if not before
  bool newest_first = false;
  std::uint64_t limit = ~std::uint64_t{0} >> 1;
};

// Wakes a process when the queue has changed: fd() becomes readable, drain() makes it wait for the next change. Changes made
// while nobody drains are one wake-up. Look after making the watch, or a change in between is missed.
class JobWatch {
 public:
  virtual ~JobWatch() = default;
  virtual int fd() const = 0;
  virtual void drain() = 0;
  virtual bool stands() const { return true; }   // false: somebody has removed what tells it; another must be made
};
enum class Changes { any, job_ended };             // job_ended: only when the last task of some job has ended

// While it lives, all that its reader reads is of one moment: what several calls tell agrees. Not for long: the file cannot be
// tidied up meanwhile.
class OneMoment {
 public:
  virtual ~OneMoment() = default;
};

// When to look, and that several looks agree.
class JobMoments {
 public:
  virtual ~JobMoments() = default;

  virtual std::unique_ptr<OneMoment> one_moment() = 0;
  virtual std::unique_ptr<JobWatch> watch(Changes what) = 0;
};

class JobReader : public JobMoments {
 public:
  virtual std::vector<model::Job> jobs(const JobQuery& query) = 0;   // in order of id
  virtual model::JobSpec spec(model::JobId job) = 0;   // with the terms' time; throws Error(usage) for no such job

  // Tasks that left the plain queued state, in order, from `from` on; `states` empty = any.
  virtual std::vector<model::Task> tasks(model::JobId job, model::TaskIndex from, std::uint64_t limit,
                                         const std::set<model::TaskState>& states = {}) = 0;
  virtual std::optional<model::Task> task(model::JobId job, model::TaskIndex index) = 0;   // also a plain one
  virtual std::vector<std::string> cells(model::JobId job, std::uint64_t item) = 0;   // a row of its items
  virtual bool draining() = 0;
};

}  // namespace thole::port
