#include "cli/claim_search.hpp"

#include <algorithm>

#include "app/queue/job_list.hpp"
#include "app/queue/job_names.hpp"
#include "base/error.hpp"
#include "wire/queue.hpp"

namespace thole::cli {

namespace {

constexpr std::size_t most_looked_at = 20;       // of its running tasks

bool has_paused_tasks(port::JobReader& jobs, const model::Job& job) {
  if (job.counts[model::TaskState::running] == 0) return false;
  return std::ranges::any_of(jobs.tasks(job.id, 0, most_looked_at, {model::TaskState::running}), &model::Task::paused);
}

// The newest that the word names. A queue that cannot be looked at has no jobs to tell of.
std::optional<app::OwnJob> own_job(Context& context, const std::string& word) try {
  wire::Queue* queue = context.wire.find_queue();
  if (!queue) return std::nullopt;
  port::JobReader& jobs = queue->jobs();
  std::optional<app::OwnJob> found;
  for (const model::Job& job : app::jobs_of(jobs, app::selections(jobs, {word}))) {
    const model::TaskCounts counts = app::counts_of(job);
    const bool is_over =
        counts[model::TaskState::queued] + counts[model::TaskState::held] + counts[model::TaskState::running] == 0;
    if (!is_over) found = {job.id, job.name, counts[model::TaskState::held] > 0, has_paused_tasks(jobs, job)};
  }
  return found;
} catch (const Error&) {
  return std::nullopt;
}

}  // namespace

app::ClaimSearch claim_search(Context& context) {
  const wire::Settings& settings = context.wire.settings();
  return {.store = context.wire.find_store(),
          .environment = settings.environment,
          .uid = settings.uid,
          .directory = [&context](const std::string& id, uid_t owner) { return context.wire.paths().find_claim(id, owner); },
          .gpus = [&context]() -> const app::Observer& { return context.wire.glance(); },
          .user_name = wire::user_name,
          .job_of_lane = [&context](pid_t pid) { return context.wire.job_of_lane(pid); },
          .job_called = [&context](const std::string& word) { return own_job(context, word); },
          .shell = wire::shell_above};
}

}  // namespace thole::cli
