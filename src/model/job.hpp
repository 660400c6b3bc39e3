// A job of the durable queue and its tasks, as values: what was submitted, on which terms, and how far it has come.
//
// A job is one command, or one command template run over many tasks (an array, a sweep). What was submitted never changes
// (JobSpec); what `thole edit` may change is JobTerms; counters say how many tasks are in which state.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "model/binding.hpp"
#include "model/command.hpp"
#include "model/request.hpp"

namespace thole::model {

using JobId = std::uint64_t;                     // from 1, in order of submission, never used again
using TaskIndex = std::uint64_t;                 // from 0 within its job
inline constexpr TaskIndex most_tasks = 100'000'000;   // of one job

enum class TaskState : std::uint8_t { queued, held, running, done, failed, lost, cancelled, skipped };
inline constexpr std::size_t task_states = 8;
const char* to_string(TaskState state);
std::optional<TaskState> parse_task_state(std::string_view text);
constexpr bool ended(TaskState state) { return state > TaskState::running; }   // will not run unless somebody says `retry`

// How many tasks are in which state.
class TaskCounts {
 public:
  std::uint64_t& operator[](TaskState state) { return of_[static_cast<std::size_t>(state)]; }
  std::uint64_t operator[](TaskState state) const { return of_[static_cast<std::size_t>(state)]; }
  std::uint64_t total() const;
  std::uint64_t ended() const;                   // in a state from which nothing leads on by itself
  TaskCounts& operator+=(const TaskCounts& other);
  bool operator==(const TaskCounts&) const = default;

 private:
  std::array<std::uint64_t, task_states> of_{};
};

enum class After { ok, any, fail };              // every task done; ended somehow; ended and not every task done
const char* to_string(After after);
std::optional<After> parse_after(std::string_view text);
struct Dependency {
  JobId job = 0;
  After when = After::ok;
  bool operator==(const Dependency&) const = default;
};

// Which ends of a task make it run again by itself, how often, and after which pause.
struct Retry {
  unsigned times = 0;                            // at most so many further runs of each task
  bool any_failure = false;                      // whatever the exit status or signal
  std::vector<std::pair<int, int>> exit_codes;   // from, to
  std::vector<int> signals;                      // 0: any
  bool gpu_out_of_memory = false;                // the log of the failed task says so
  bool lost = false;
  Seconds pause{0};                              // before the first further run; doubles each time
  bool operator==(const Retry&) const = default;
};

// What a task's {name} stands for. Grid variables multiply, the last one moves fastest; rows of items (a CSV, lines) are the
// outermost dimension and lie beside the job (model/job_items.hpp).
struct Range { std::int64_t first = 0, last = 0, step = 1; bool operator==(const Range&) const = default; };
struct GridVariable {
  std::string name;
  std::vector<std::string> values;               // or:
  std::optional<Range> range;                    // a million values that take no room
  bool operator==(const GridVariable&) const = default;
};
struct Sweep {
  std::vector<std::string> columns;              // names of an item's cells; empty: there are no items
  std::vector<GridVariable> grid;
  bool operator==(const Sweep&) const = default;
};

inline constexpr Seconds longest_declared{366LL * 24 * 3600};   // as far as an order goes by it

struct JobSpec {
  std::vector<std::string> argv;                 // a template where there is a sweep
  std::string name;
  std::vector<std::string> tags;
  Request request;                               // its time is the job's limit; see JobTerms
  BindOptions bind;
  std::string ids = "auto";                      // how GPUs are named to the job: auto, uuid, index
  std::string directory;
  std::vector<std::string> environment;          // "K=V"; kept apart, never part of any --json
  mode_t umask = 022;
  std::vector<std::string> limits;               // soft ones, "cpu=77" (base/soft_limits.hpp); what is not named is unlimited
  Sweep sweep;
  Retry retry;
  Seconds patience = usual_patience;             // between INT, TERM and KILL
  unsigned per_gpu = 1;                          // tasks at once within one claim
  unsigned leave = 0;                            // GPUs that must stay free for others
  bool linger = false;
  std::optional<std::uint64_t> log_limit_mib;
  std::string notify;                            // a command for sh, run once the job has ended
  std::string snapshot;                          // directory of the copy of the code; "" = none

  // What the line is told beside its limit: a task that hears neither INT nor TERM lives two patiences longer. The usual ones
  // are within what a promise may be late by.
  Seconds beyond_limit() const { return 2 * (std::clamp(patience, usual_patience, longest_declared) - usual_patience); }
};

// What may be changed of a job as long as tasks of it have not started.
struct JobTerms {
  int priority = 0;                              // higher goes first
  bool held = false;
  std::optional<WallTime> begin;                 // not before
  std::optional<std::uint64_t> at_most;          // tasks at once
  std::optional<Seconds> time;                   // limit of each task; replaces Request::time
  std::vector<Dependency> after;
  bool operator==(const JobTerms&) const = default;
};

// A job as lists show it and as the runner's rule judges it. The spec is read by itself, where it is needed.
struct Job {
  JobId id = 0;
  std::string name, command;                     // command: the words as typed, cut to fit a line of a list
  std::vector<std::string> tags;
  unsigned gpus = 0;
  std::uint64_t request_class = 0;               // jobs that ask for the same GPUs have the same number
  JobTerms terms;
  std::uint64_t unmet = 0;                       // dependencies that have not been met yet
  std::uint64_t tasks = 1;
  TaskCounts counts;
  std::optional<WallTime> ready;                 // every queued task waits for its next try, the first until then
  WallTime submitted{};
  std::optional<WallTime> started, ended;        // of the first task; of the last one
  Millis busy{0};                                // sum of the run times of tasks that ended
  std::uint64_t ran = 0;                         // how many runs `busy` is the sum of
  bool operator==(const Job&) const = default;
};

// Why no task of a job can go now, whatever GPUs are free. Nothing: one can.
enum class KeptBack { nothing_queued, held, dependency, begin, at_most, pause };
std::optional<KeptBack> kept_back(const Job& job, WallTime now);
const char* to_string(KeptBack reason);

// A task that has left the plain queued state; of the others only their number is kept.
struct Task {
  JobId job = 0;
  TaskIndex index = 0;
  TaskState state = TaskState::queued;
  bool paused = false;                           // stopped while running
  bool cancel_asked = false;                     // running, and somebody wants it to end
  bool given_up = false;                         // … and says that it is over, should its runner not see it
  unsigned runs = 0;                             // how often it was started; tries: since somebody queued it
  unsigned tries = 0;
  std::uint64_t lane = 0;                        // whose claim it runs in, as the runner numbers them
  unsigned bay = 0;                              // of the lane's bays at once
  std::optional<WallTime> started, ended;        // of the last run
  std::optional<WallTime> ready;                 // queued again: not before
  std::optional<int> exit_code, signal;
  std::string reason;                            // what the status does not tell: "time limit", "out of GPU memory", …
  std::string log;                               // name of the file with its output, which begins at the offset
  std::uint64_t log_offset = 0;
  std::optional<std::uint64_t> log_length;       // unknown while it runs
  std::vector<std::string> gpus;                 // keys of the units it had
  std::optional<std::uint64_t> peak_memory_mib, peak_gpu_memory_mib;
};

}  // namespace thole::model
