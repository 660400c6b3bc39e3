// Port: the durable queue of one user on one machine, in three parts. JobReader looks, JobDesk is where people hand in and change
// jobs, JobWork is where the runner and its lanes take tasks and report their ends. One implementation serves all three.
//
// Every function is one transaction: all of it is stored or nothing. What fails throws Error(unavailable): the disk is full
// (sys_errno ENOSPC; nothing is changed, try again), the file is damaged or of a newer thole. Several processes may use a store at
// once; one object belongs to one thread, and must be put away (JobWork::rest) before its process forks.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "model/job.hpp"
#include "model/job_items.hpp"

namespace thole::port {

// Jobs [first, last], or some tasks of one job.
struct Selection {
  model::JobId first = 0, last = 0;
  std::optional<std::pair<model::TaskIndex, model::TaskIndex>> tasks;   // of job `first`; from, to
};

struct JobQuery {
  std::vector<Selection> ids;                      // only these jobs (their tasks do not matter here); empty = all
  std::set<model::TaskState> states;               // with a task in one of these; empty = any
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
};
enum class Changes { any, job_ended };             // job_ended: only when the last task of some job has ended

class JobReader {
 public:
  virtual ~JobReader() = default;
  virtual std::vector<model::Job> jobs(const JobQuery& query) = 0;   // in order of id
  virtual model::JobSpec spec(model::JobId job) = 0;                 // with the terms' time; throws Error(usage) for no such job
  // Tasks that left the plain queued state, in order, from `from` on; `states` empty = any.
  virtual std::vector<model::Task> tasks(model::JobId job, model::TaskIndex from, std::uint64_t limit,
                                         const std::set<model::TaskState>& states = {}) = 0;
  virtual std::optional<model::Task> task(model::JobId job, model::TaskIndex index) = 0;   // nothing: there is none; plain ones too
  virtual std::vector<std::string> cells(model::JobId job, std::uint64_t item) = 0;   // a row of its items
  virtual std::uint64_t ahead_of(model::JobId job) = 0;   // jobs of its request class that go before it
  virtual std::vector<model::JobId> dependents(model::JobId job) = 0;
  virtual bool draining() = 0;
  virtual std::unique_ptr<JobWatch> watch(Changes what) = 0;
};

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

// hold keeps queued tasks (or a whole job) from starting, resume undoes it; pause and proceed mark running tasks as stopped or not;
// retry queues what failed, was lost, cancelled or skipped (of a task selection: done, too) once more.
enum class Verb { cancel, hold, resume, pause, proceed, retry };

// What a verb did to one job.
struct Altered {
  model::JobId job = 0;
  std::uint64_t changed = 0;                       // tasks whose state (or mark) is now another
  std::vector<model::Task> running;                // cancel, pause, proceed: marked; their lanes have to act
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
  virtual void edit(model::JobId job, const TermsChange& change, WallTime now) = 0;
  virtual void drain(bool on) = 0;                 // while on, no task can be taken
  // Forgets ended jobs nobody depends on; their numbers, so that logs can go. Fewer than there are to go: call again.
  virtual std::vector<model::JobId> prune(const Keep& keep, WallTime now) = 0;
};

// How a run of a task ended. `state` queued: it is to run again, not before `ready`. With `unstarted` the command never ran (and
// `runs` does not count it). A task that was asked to be cancelled does not run again: its state becomes cancelled.
struct TaskEnd {
  model::JobId job = 0;
  model::TaskIndex index = 0;
  unsigned runs = 0;                               // which run (TakenTask::runs); 0: whichever is going on
  model::TaskState state = model::TaskState::done;
  bool unstarted = false;
  WallTime at{};
  std::optional<WallTime> ready;
  std::optional<int> exit_code, signal;
  std::string reason;
  std::optional<std::uint64_t> log_length;
  std::optional<std::uint64_t> peak_memory_mib, peak_gpu_memory_mib;
};
struct TakeWish {
  struct Place {
    unsigned number = 0;                           // of the lane, whose free place this is
    std::string log;                               // the log its next task writes to: a name within the queue's directory of logs
    std::uint64_t log_offset = 0;                  // where its text will begin
  };
  model::JobId job = 0;
  std::uint64_t lane = 0;
  std::vector<Place> places = std::vector<Place>(1);   // a task is wished for each
  std::vector<std::string> gpus;                   // keys of the lane's units, for the record
};
struct TakenTask {
  model::JobId job = 0;
  model::TaskIndex index = 0;
  unsigned place = 0;                              // which of the wished ones it has
  unsigned runs = 1;                               // this one included
  unsigned tries = 1;                              // the same since submission or the last `retry`: what Retry::times limits
  std::vector<std::string> cells;                  // its item's, where the job has items
  std::optional<Seconds> time;                     // its limit, as of now
};
struct Turn {
  std::vector<TakenTask> taken;                    // fewer than wished: the job has no more that may go now
  std::vector<model::JobId> ended;                 // jobs whose last task ended with this, or was skipped because of it
};

class JobWork {
 public:
  virtual ~JobWork() = default;
  // Of each request class the first `per_class` jobs, by priority and then age, that nothing holds back (held_back): none while
  // draining. The classes come in the order of their first jobs.
  virtual std::vector<model::Job> candidates(WallTime now, unsigned per_class) = 0;
  virtual std::optional<WallTime> next_due(WallTime now) = 0;   // when time alone (begin, a pause) gives a further candidate
  virtual std::vector<model::Task> running() = 0;               // of all jobs; after a crash: what the lanes' records must explain
  // Records ends and takes tasks, in one transaction: what a lane does between two tasks. An end of a run that is not
  // going on changes nothing, so an end may be recorded twice.
  virtual Turn turn(std::span<const TaskEnd> ends, const std::optional<TakeWish>& wish, WallTime now) = 0;
  virtual void rest() = 0;                                      // closes the files; the next call opens them again
};

class JobStore : public JobReader, public JobDesk, public JobWork {};

}  // namespace thole::port
