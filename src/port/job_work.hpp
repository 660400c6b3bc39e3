// Port: where the runner of the durable queue and its lanes take tasks and report their ends.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/keyed_hash.hpp"
#include "base/time.hpp"
#include "model/boot.hpp"
#include "model/job.hpp"

namespace thole::port {

// How a run of a task ended. `state` queued: it is to run again, not before `ready`. With `unstarted` the command never ran
// (and `runs` does not count it). A task that was asked to be cancelled does not run again: its state becomes cancelled.
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
  struct Bay {
    unsigned number = 0;                           // of the lane, whose free bay this is
    std::string log;  // the log its next task writes to: a name within the queue's directory of logs
    std::uint64_t log_offset = 0;                  // where its text will begin
  };
  model::JobId job = 0;
  std::uint64_t lane = 0;
  std::vector<Bay> bays = std::vector<Bay>(1);         // a task is wished for each
  std::vector<std::string> gpus;                   // keys of the lane's units, for the record
};
struct TakenTask {
  model::JobId job = 0;
  model::TaskIndex index = 0;
  unsigned bay = 0;                                // which of the wished ones it has
  unsigned runs = 1;                               // this one included
  unsigned tries = 1;                              // the same since submission or the last `retry`: what Retry::times limits
  std::vector<std::string> cells;                  // its item's, where the job has items
  std::optional<Seconds> time;                     // its limit, as of now
};
struct Round {
  std::vector<TakenTask> taken;                    // fewer than wished: the job has no more that may go now
  std::vector<model::JobId> ended;                 // jobs whose last task ended with this, or was skipped because of it
};

// A newer thole has brought the queue's file up to date: only that one can go on with it. Lanes of this one leave the ends of
// their tasks in their records, and its runner gives its seat up to one of the newer.
struct NewerFile : Error {
  explicit NewerFile(Error error) : Error(std::move(error)) {}
};

// The file of the queue that this works with.
class JobFile {
 public:
  virtual ~JobFile() = default;

  // Somebody may set the queue's file aside or remove it while it is used. Whoever has worked with it then is refused, since
  // job 7 of the file that lies there now is another one.
  virtual std::uint32_t origin() = 0;              // which file this works with, wherever it lies; never 0
  virtual HashKey secret() = 0;                    // random, this file's alone, and nobody's but its owner's
  virtual bool replaced() = 0;                     // that is no longer the queue's
  virtual bool renew() = 0;                        // from here on with the one that is; false: there is none
  virtual void rest() = 0;                                      // closes the files; the next call opens them again
};

class JobWork : public JobFile {
 public:
  // Of each request class the first `per_class` jobs that nothing holds back (kept_back), and what else is needed to put them
  // in order (plan::put_in_order, which says who is first): none while draining. By priority, then age.
  virtual std::vector<model::Job> candidates(WallTime now, unsigned per_class) = 0;
  virtual std::optional<WallTime> next_due(WallTime now) = 0;   // when time alone (begin, a pause) gives a further candidate

  // Before anything is taken under this boot of the machine: what may have begun under another one, or before the disk was
  // mounted anew, though the last that is known of it says queued, is running from here on, in no lane
  // (model::lane_of_another_boot). The same where it cannot be told whether that was another one (lane_of_untold): once it can,
  // it is queued again or of another boot.
  virtual void booted(const model::Boots& boots, WallTime now) = 0;

  // No lane works for another job than these: of others no more has begun than is known to have, also after a loss of power.
  virtual void go_no_further(std::span<const model::JobId> but) = 0;
  virtual std::vector<model::Task> running() = 0;  // of all jobs; after a crash: what the lanes' records must explain

  // Records ends and takes tasks, in one transaction: what a lane does between two tasks. An end of a run that is not
  // going on changes nothing, so an end may be recorded twice. That what was taken may begin is on the disk when this returns:
  // after a loss of power it is never queued again, though its end may be unknown.
  virtual Round round(std::span<const TaskEnd> ends, const std::optional<TakeWish>& wish, WallTime now) = 0;
};

}  // namespace thole::port
