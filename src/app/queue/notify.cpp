#include "app/queue/notify.hpp"

#include <algorithm>

#include "app/queue/job_list.hpp"
#include "app/queue/job_names.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::app {

namespace {

// Nobody waits for it: a failure says so itself, in the runner's log, where `why` finds it.
std::string telling(const QueuePorts& ports, model::JobId id, const std::string& command) {
  return fmt::format("/bin/sh -c {} || echo \"$(date -u +%Y-%m-%dT%H:%M:%SZ) {}$?\" >> {}", shell_quote(command),
                     notify_failed_text(id), shell_quote(ports.queue + "/runner.log"));
}

}  // namespace

std::string notify_failed_text(model::JobId id) { return fmt::format("job {}: its --notify command ended with status ", id); }

std::string notify_failure_in(std::string_view log, model::JobId id) {
  const std::string text = notify_failed_text(id);
  std::string status;
  for (const std::string_view line : split_lines(log))
    if (const std::size_t at = line.find(text); at != std::string_view::npos) status = line.substr(at + text.size());
  return status;
}

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
    ports.lanes.run_aside(telling(ports, id, spec.notify), spec.directory, environment);
  } catch (const Error& error) {
    ports.say(fmt::format("job {}: cannot notify: {}", id, error.full()));
  }
}

}  // namespace thole::app
