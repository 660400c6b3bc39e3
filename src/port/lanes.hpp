// Port: the seats of the processes that work on a queue. A seat is a lock that the kernel frees at an end, so that nobody can
// be dead and seated: a lane's with the last process that has a copy of it, the runner's with the runner itself.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "model/command.hpp"
#include "model/job.hpp"
#include "model/lane_record.hpp"
#include "port/seen_record.hpp"

namespace thole::port {

// The one runner of a queue. Destroying it gives the seat up:
// the lock first, so that who could not get it sees that nobody has it.
struct RunnerSeat {
  Fd wake;                                       // readable when somebody stirs; empty() takes all that is there
  Fd lock;
  Fd removals;                                   // readable when something in the queue's directory was removed; may be empty
  ~RunnerSeat() { lock.reset(); }
  RunnerSeat() = default;
  RunnerSeat(RunnerSeat&&) = default;
  RunnerSeat& operator=(RunnerSeat&&) = default;
};

// A lane's files, open. `life` is locked by whoever opened it with Lanes::take; its copies lie with every process of its tasks.
struct LaneSeat {
  unsigned number = 0;
  Fd life, mail;
  SeenRecord record;
};

// A lane seen from outside.
struct LaneView {
  unsigned number = 0;
  Fd mail;                                       // a byte is for it; empty: its process is not there
  Fd process;                                    // readable, or hung up, when that has ended; empty where there is none
  pid_t pid = 0;                                 // its number, where that is sure: no other's, and of no other pid namespace
  bool held = false;                             // somebody has its lock: it, or something of its tasks
  Fd end;                                        // when held: hangs up when nobody has the lock any more
  SeenRecord record;
  bool is_copy = false;                          // the record is a copy of another queue's
  bool of_another_moment = false;               // it is this lane's, but not as that wrote it last: from a backup, say
  std::string problem{};                         // why it cannot be looked at, and the fix: nothing is known of it then
};

// How the processes of one start of a task are found when its lane is dead.
struct RunTrace {
  std::string mark;                              // with which THOLE_TASK in their environment begins
  pid_t command = 0;                             // as its lane has noted it; 0: it has not
  model::ProcessIdentity identity{};
  std::uint64_t pid_namespace = 0;               // of its lane; 0: not known
  // By what such a process is known as this queue's, and not a copy's of it; see host/queue/copied_queue.hpp.
  enum class By { number, directory, nothing } known_by = By::number;
  std::optional<unsigned> lane{};                // whose lock tells, too; nothing where it is not sure that this is its lane
  std::uint64_t lane_start = 0;                  // ticks as those of a command; 0: not known
  bool is_alone = false;                         // no other task of it lives: what has the lock and shows none is of this one
};

// The number of its lane, in its THOLE_TASK behind the mark of the run.
inline std::string word_of_lane(std::uint64_t number) { return fmt::format("{:016x}@", number); }

// Into a trace with the mark of the run alone. `record`: null where it is missing.
inline void put_lane(RunTrace& run, const model::LaneRecord* record, bool is_copy) {
  const std::uint64_t number = record && !is_copy ? model::number_of(*record) : 0;
  if (number != 0) run.mark += word_of_lane(number);
  run.lane_start = record && !is_copy ? model::start_of(*record) : 0;
  run.known_by = is_copy ? RunTrace::By::nothing : number != 0 ? RunTrace::By::number : RunTrace::By::directory;
}

// What lives of a run would not be seen from here: /proc, or this process, is of another pid namespace, or the kernel lets it
// neither be told nor signalled from here (a user namespace); or it is that of the queue of which this one is a copy. It is
// neither gone nor to be signalled.
// (`hidden`: what has its lane's lock is known by that alone. It is waited for, and nobody but root can tell who it is.)
enum class UnseenBy { pid_namespace, user_namespace, original, hidden };
struct Unseen : Error {
  explicit Unseen(Error error, UnseenBy reason = UnseenBy::pid_namespace) : Error(std::move(error)), by(reason) {}
  UnseenBy by;
  std::string boot{};                            // model::to_text: of which nobody here knows whether it is this one; "": known
};

// A run of which the runner sees nothing.
struct UnseenRun {
  model::JobId job = 0;
  model::TaskIndex task = 0;
  unsigned runs = 0;
  std::uint64_t pid_namespace = 0;               // of its lane; 0: not known
  UnseenBy by = UnseenBy::pid_namespace;
  bool locked = false;                           // something has its lane's lock: it is not over
  std::string boot{};                            // as Unseen::boot
  std::string why{};                             // and what to do
  bool operator==(const UnseenRun&) const = default;
};

// Where something was started that a runner looks after: who would not see it is not to take its place.
struct SeenFrom {
  std::uint64_t pid_namespace = 0;               // 0: not known
  std::string boot{};                            // model::to_text; "": not known
  auto operator<=>(const SeenFrom&) const = default;
};

// Of what dead lanes have left, as the runner tells all who look at the queue.
struct RunnerSight {
  std::vector<UnseenRun> unseen;                 // none: it sees everything
  std::set<SeenFrom> seen;
};

// The runner's own seat.
class RunnerSeats {
 public:
  virtual ~RunnerSeats() = default;

  // Nothing: another runner lives.
  virtual std::optional<RunnerSeat> sit() = 0;

  // Makes those of the seat's files again that somebody has removed. False: another runner has made them his by now.
  virtual bool keep(RunnerSeat& seat) = 0;

  // Tells whoever looks at the queue what its runner sees; does nothing where that stands there already. Throws
  // Error(unavailable) where it cannot be written.
  virtual void tell_sight(const RunnerSight& sight) = 0;

  // Has the runner that sits leave its seat for this process, which the next sit() gives it; waits for that. False: it does not
  // leave, or sees all that would be seen here, or somebody else is at it.
  virtual bool relieve() = 0;
  virtual bool is_awaited() = 0;                 // somebody does so: who left for nobody would leave the queue without a runner
};

// The seats of its lanes.
class LaneSeats {
 public:
  virtual ~LaneSeats() = default;

  virtual std::vector<LaneView> look() = 0;      // every lane that has files; for the runner only (a look tries locks)

  // Makes a lane's seat with an empty record; nothing when somebody has its lock.
  virtual std::optional<LaneSeat> take(unsigned number, model::JobId job) = 0;
  virtual LaneView look_at(unsigned number) = 0;   // throws where it cannot be looked at

  // Whether a lane's files are still where the runner, and the next one, look for them.
  virtual bool stands(const LaneSeat& seat) = 0;

  // Forks a process that does `work` in a process group of its own, without the runner's seat,
  // and ends with the status it returns.
  virtual pid_t fork(LaneSeat seat, RunnerSeat& runner, const std::function<int(LaneSeat&)>& work) = 0;
};

// What lives of runs whose lane is dead.
class RunTraces {
 public:
  virtual ~RunTraces() = default;

  // What lives of a run, as descriptors that become readable when they end, of many a few: its command, those that carry its
  // mark, those that keep its lane's lock and show no task where it is alone, and those of which it cannot be told. The last
  // ones get no signal.
  virtual std::vector<Fd> bearers(const RunTrace& run) = 0;

  // False: there are none. Throws Unseen (hidden) where something has the lane's lock, and none of those that are seen.
  virtual bool signal_bearers(const RunTrace& run, model::Signal signal) = 0;

  // The same of the processes that have this lane's lock, wherever its files are: the lane itself and its tasks, but for those
  // that carry the mark of another run.
  virtual std::vector<Fd> holders(unsigned number, const RunTrace& run) = 0;
};

// All that the runner has of its lanes.
class Lanes : public RunnerSeats, public LaneSeats, public RunTraces {
 public:
  // A command for the shell, in the background and nobody's child; what becomes of it is not known.
  virtual void run_aside(const std::string& command, const std::string& directory,
                         const std::vector<std::string>& environment) = 0;
};

}  // namespace thole::port
