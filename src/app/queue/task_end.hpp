// The end of a task's run as the store takes it: how it ended, and what becomes of the task (plan/job/fate.hpp).
#pragma once

#include "model/job.hpp"
#include "plan/job/fate.hpp"
#include "port/job_work.hpp"

namespace thole::app {

// `Task`: a port::TakenTask, or a model::Task that runs.
template <class Task>
port::TaskEnd judged(const Task& task, const plan::TaskEnding& ending, const model::Retry& retry, WallTime now) {
  const plan::TaskFate fate = plan::fate_of(ending, retry, task.tries, now);
  port::TaskEnd end;
  end.job = task.job;
  end.index = task.index;
  end.runs = task.runs;
  end.state = fate.state;
  end.at = now;
  end.ready = fate.ready;
  if (!ending.taken_down) end.exit_code = ending.exit_code, end.signal = ending.signal;   // else it says nothing of the task
  end.reason = fate.reason;
  return end;
}

// Of a task whose command has never run: it is queued as it was, and this was no run.
template <class Task>
port::TaskEnd unstarted(const Task& task, WallTime now) {
  port::TaskEnd end;
  end.job = task.job;
  end.index = task.index;
  end.runs = task.runs;
  end.state = model::TaskState::queued;
  end.unstarted = true;
  end.at = now;
  return end;
}

// Rounded up.
constexpr std::uint64_t mib_of_kib(std::uint64_t kib) { return (kib + 1023) / 1024; }

}  // namespace thole::app
