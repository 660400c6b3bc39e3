// Port: how commands reach the processes that work on a queue: its runner, the lanes that run its tasks, and what these write.
//
// How a command uses it: it changes the store first and tells the living afterwards. Whoever is dead finds the change in the
// store when he is replaced, so nothing that was told is lost.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/time.hpp"
#include "model/job.hpp"
#include "port/lanes.hpp"

namespace thole::port {

// An end that the lane of a running task has seen, and noted, and that is not in the queue's file.
struct NotedEnd {
  WallTime at{};
  std::optional<int> exit_code, signal;
};

// The runner of the queue.
class RunnerDoor {
 public:
  virtual ~RunnerDoor() = default;

  // Something in the store may let a task start or end the runner's wait (submit, resume, retry, edit, cancel, hold, drain):
  // the runner looks again; one is started, detached, when none lives. Throws Error(unavailable) when none can be started: what
  // was submitted is kept, and starts with the next one.
  virtual void stir() = 0;

  // The runner's process, where one lives and somebody has stopped it (SIGSTOP): nothing starts until it goes on.
  virtual std::optional<pid_t> stopped_runner() = 0;

  // Becomes readable when the runner that lives has gone; empty where none does.
  virtual Fd runner_end() = 0;

  // Where the runner that lives does not see what one would that is started from here, and looks after nothing that this one
  // would not see, one is started that asks it to leave its seat; its lanes go on. Not where one of the files that what is to
  // be started finds by name first of all is another one here, or is only here or there (`files` is asked then, with how many
  // tasks of each job that runner does not see). `awaited`: until it has left; else nobody is waited for. Throws
  // Error(unavailable) when none can be started, or it has not left in time. False: a runner elsewhere has not told yet what it
  // sees.
  using UnseenCounts = std::map<model::JobId, std::uint64_t>;
  using Files = std::function<std::vector<std::string>(const UnseenCounts& unseen)>;
  virtual bool relieve(const Files& files, bool awaited) = 0;

  // What a job will have from where the runner that lives was started, and not from here; "" where nothing, or none lives.
  // Throws Error(unavailable) where one of these files is another one there.
  virtual std::string surroundings(const std::vector<std::string>& files) = 0;
};

// Its lanes, and what they have left.
class LaneDoor {
 public:
  virtual ~LaneDoor() = default;

  // The store asks something of a running task (cancel, pause, proceed; see Altered::running): its lane reads it there. A dead
  // lane's tasks are the runner's business, which is stirred then.
  virtual void nudge(std::uint64_t lane) = 0;
  virtual std::optional<pid_t> stopped_lane(std::uint64_t lane) = 0;   // the same of a lane: it sees no end, and obeys nobody
  virtual std::optional<model::JobId> job_of_lane(pid_t pid) = 0;   // the job that this process works for as a lane

  // What a running task waits for whose lane was killed: "process 1234 python train.py"; nothing where its lane lives.
  // `mark`: of its run.
  virtual std::vector<std::string> left_of(const model::Task& task, const std::string& mark) = 0;
  virtual std::optional<NotedEnd> noted_end(const model::Task& task) = 0;

  // A running task whose lane was killed, and of which the queue's runner sees nothing; nothing where its lane lives, or it is
  // seen. Where no runner lives, or it has not looked yet: what this process would see. A runner elsewhere that has not told
  // what it sees is taken to see nothing.
  virtual std::optional<UnseenRun> unseen(const model::Task& task, const std::string& mark) = 0;
};

// The directory that these write to.
class QueueFolder {
 public:
  virtual ~QueueFolder() = default;

  // What runner and lanes have said last, as it stands in their log; "" where nothing can be read.
  virtual std::string last_said() const = 0;
  virtual std::string full_disk() const = 0;     // the queue's directory, where its disk has no room; "": it has
  virtual std::string read_only_disk() const = 0;   // the same where nothing can be written to it from here

  // The path of a log by its name in the store (Task::log). Its middle may be a hole (the size cap): read with SEEK_DATA.
  virtual std::string log_path(const std::string& name) const = 0;
  virtual void forget_logs(model::JobId job) = 0;

  // Asks whose each copy of code is of which nobody knows; nobody's (no answer) is removed.
  using Owner = std::function<std::optional<model::JobId>(const std::string& copy)>;
  virtual void settle_code(const Owner& owner) = 0;
};

// All of a queue but its store.
class QueueDoor : public RunnerDoor, public LaneDoor, public QueueFolder {};

}  // namespace thole::port
