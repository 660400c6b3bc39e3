// Port: the tasks of one lane: started, ended, stopped and watched, several at a time.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/time.hpp"
#include "model/command.hpp"
#include "port/processes.hpp"

namespace thole::port {

struct TaskOver {
  unsigned bay = 0;
  Ended ended;
  bool cancelled = false;                        // it was asked to stop
  bool taken_down = false;                       // by a signal that was not ours, and its lane was told to end as well
  bool survived = false;                         // something of it could not be ended
  std::optional<std::uint64_t> peak_memory_kib;  // of the largest of its processes that were waited for
};

struct TaskRun {
  unsigned bay = 0;
  std::optional<Seconds> time_limit{};           // of its running time, and of what lingers: INT, TERM, KILL, `patience` apart
  Millis patience = model::usual_patience;
  bool linger = false;                           // wait for what it leaves behind instead of ending it
  std::function<void(const std::vector<std::string>&)> on_out_of_reach = {};   // who the kernel does not let us end; each once
  std::function<void(unsigned rungs, bool time_limit)> on_rung = {};   // of its end, before it is told; 1 INT, 2 TERM, 3 KILL
  // Its command has ended, and the kernel still knows how: what it has left may yet be ended. Not told of one that may have
  // been taken down with everything.
  std::function<void(const TaskOver&)> on_command_end = {};
};

struct StopTask {};                              // as its time limit would; also what lingers of it
struct PauseTask { bool on = true; };            // its whole tree; the limit stands still
struct ExtendTask { SteadyTime limit; };         // it ends then instead; of a paused one that much after it goes on
using TaskOrder = std::variant<StopTask, PauseTask, ExtendTask>;

enum class TaskStands { running, paused, ending };   // ending: its end has begun, or no task is there

class TaskKeeper {
 public:
  virtual ~TaskKeeper() = default;

  // Starts a command; its pid. Throws as Commands::start.
  virtual pid_t start(const ProcessSpec& spec, const TaskRun& run) = 0;

  virtual void tell(unsigned bay, const TaskOrder& order) = 0;     // nothing where no task is, or it is too late for that
  virtual TaskStands stands(unsigned bay) const = 0;

  // Whether this process was told to end (SIGTERM): the machine goes down, or somebody wants it so.
  virtual bool told_to_end() = 0;

  // Sleeps until a task is over (the command has ended and nothing of it is left), this process is told to end, one of `also`
  // is readable, or the deadline.
  virtual std::vector<TaskOver> wait(std::span<const int> also, std::optional<SteadyTime> deadline) = 0;
};

}  // namespace thole::port
