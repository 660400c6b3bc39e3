#include "app/notify.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::app {

namespace {

// In one word: the worst that became of a task of it.
const char* state_of(const model::TaskCounts& counts) {
  using model::TaskState;
  for (TaskState state : {TaskState::failed, TaskState::lost, TaskState::cancelled, TaskState::skipped})
    if (counts[state] > 0) return to_string(state);
  return to_string(TaskState::done);
}

}  // namespace

void notify(const QueuePorts& ports, model::JobId id) {
  const model::JobSpec spec = ports.jobs.spec(id);
  if (spec.notify.empty()) return;
  port::JobQuery query;
  query.ids = {{id, id, {}}};
  const std::vector<model::Job> jobs = ports.jobs.jobs(query);
  if (jobs.empty()) return;
  const model::TaskCounts& counts = jobs.front().counts;
  std::vector<std::string> environment = spec.environment;
  std::erase_if(environment, [](const std::string& word) { return word.starts_with("THOLE_JOB"); });
  environment.push_back(fmt::format("THOLE_JOB={}", id));
  environment.push_back("THOLE_JOB_NAME=" + spec.name);
  environment.push_back(fmt::format("THOLE_JOB_STATE={}", state_of(counts)));
  environment.push_back(fmt::format("THOLE_JOB_TASKS={}", jobs.front().tasks));
  environment.push_back(fmt::format("THOLE_JOB_DONE={}", counts[model::TaskState::done]));
  try {
    ports.lanes.run_aside(spec.notify, spec.directory, environment);
  } catch (const Error& error) {
    ports.say(fmt::format("job {}: cannot notify: {}", id, error.full()));
  }
}

}  // namespace thole::app
