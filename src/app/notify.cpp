#include "app/notify.hpp"

#include <algorithm>

#include "app/job_list.hpp"
#include "app/job_names.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::app {

void notify(const QueuePorts& ports, model::JobId id) {
  const model::JobSpec spec = ports.jobs.spec(id);
  if (spec.notify.empty()) return;
  const std::optional<model::Job> job = job_of(ports.jobs, id);
  if (!job) return;
  std::vector<std::string> environment = spec.environment;
  std::erase_if(environment, [](const std::string& word) { return word.starts_with("THOLE_JOB"); });
  environment.push_back(fmt::format("THOLE_JOB={}", id));
  environment.push_back("THOLE_JOB_NAME=" + spec.name);
  environment.push_back(fmt::format("THOLE_JOB_STATE={}", outcome_of(job->counts)));
  environment.push_back(fmt::format("THOLE_JOB_TASKS={}", job->tasks));
  environment.push_back(fmt::format("THOLE_JOB_DONE={}", job->counts[model::TaskState::done]));
  try {
    ports.lanes.run_aside(spec.notify, spec.directory, environment);
  } catch (const Error& error) {
    ports.say(fmt::format("job {}: cannot notify: {}", id, error.full()));
  }
}

}  // namespace thole::app
