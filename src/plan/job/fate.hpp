// What becomes of a task whose command has ended: is it done, has it failed, does it run again, and when.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "model/command.hpp"
#include "model/job.hpp"

namespace thole::plan {

// How one run of a task ended, beyond its status.
struct TaskEnding {
  std::optional<int> exit_code = {}, signal = {};
  bool time_limit = false;
  bool cancelled = false;
  bool lost = false;                             // nobody has it on record: its supervisor was killed, or works on another file
  bool taken_down = false;                       // by a signal, and its supervisor with it: the machine went down
  bool gpu_out_of_memory = false;                // by the signs in its log
};

struct TaskFate {
  model::TaskState state = model::TaskState::done;
  std::optional<WallTime> ready;                 // state queued: not before
  std::string reason;                            // what the status does not tell
};

// `tries`: this run included. The pause before a further run doubles each time, up to a day.
TaskFate fate_of(const TaskEnding& ending, const model::Retry& retry, unsigned tries, WallTime now);

// Whether the end of a failed task's log says that a GPU's memory ran out: what PyTorch, TensorFlow, JAX, CUDA, HIP and Level
// Zero print. The words are theirs; docs/queue.md lists them.
bool says_gpu_out_of_memory(std::string_view text);

// A machine that goes down sends TERM to all processes and KILL to what is left, in an order that nobody knows. By such a
// signal, which is not ours, a command may have ended as all do: then our own end comes within this time after it.
bool may_be_taken_down(const model::HowEnded& how);
inline constexpr Millis signals_take{1'000};

}  // namespace thole::plan
