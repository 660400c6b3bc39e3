// Port: how commands reach the processes that work on a queue: its runner, and the lanes that run its tasks.
//
// How a command uses it: it changes the store first and tells the living afterwards. A runner that is dead is started; a lane that
// is dead has its orders waiting in its record, where the next runner finds them. So nothing that was told is lost.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.hpp"

namespace thole::port {

// Where a started task is, as the store's row of it says: place `place` of lane `lane`. The attempt makes it this start of the task
// and no other: a lane that has gone on to something else takes no order meant for it.
struct TaskPlace {
  unsigned lane = 0, place = 0;
  std::uint64_t job = 0, task = 0;
  std::uint32_t attempt = 0;
};

// What can be asked of a running task.
struct TaskOrder {
  enum class Kind {
    stop,      // INT, TERM, KILL with patience; it ends as cancelled
    pause,     // SIGSTOP to its tree; its time limit stands still
    go_on,     // undoes a pause
    until,     // a new end: `thole extend`, or an edited limit
  };
  Kind kind = Kind::stop;
  std::optional<WallTime> until;
};

class QueueDoor {
 public:
  virtual ~QueueDoor() = default;

  // Something in the store may let a task start, or end the runner's wait (submit, resume, retry, edit, cancel, drain, undrain):
  // the runner looks again. Starts a runner, detached, when none lives. Throws Error(unavailable) when none can be started; what
  // was submitted is kept and starts with the next one.
  virtual void stir() = 0;

  // Tells a running task's lane. False: it does not run there any more (it has ended; read the store again).
  virtual bool tell(const TaskPlace& where, const TaskOrder& order) = 0;

  // The runner's process, where one lives.
  virtual std::optional<pid_t> runner() = 0;

  // The path of a log that the store names ("17.log", "17/2.log"). In the log a task has its text from the store's offset on, for
  // the store's length, or to the end of the file while it runs. Its middle may be a hole (the size cap): read with SEEK_DATA.
  virtual std::string log_path(const std::string& name) const = 0;
};

}  // namespace thole::port
