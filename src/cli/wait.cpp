#include <algorithm>

#include "app/job_names.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/queue_site.hpp"
#include "cli/render_jobs.hpp"

namespace thole::cli {

namespace {

constexpr int not_all_done = 1;

bool is_done(const model::Job& job) { return job.counts[model::TaskState::done] == job.tasks; }

// One task ends the wait with its own status, as if it had been started here; of several it is 0 when all of them are done.
int status_of(port::JobReader& jobs, const std::vector<model::Job>& ended, const std::vector<port::Selection>& which) {
  const bool one_task = which.size() == 1 && which.front().tasks && which.front().tasks->first == which.front().tasks->second;
  if (ended.size() == 1 && (ended.front().tasks == 1 || one_task)) {
    const auto task = jobs.task(ended.front().id, one_task ? which.front().tasks->first : 0);
    if (!task || task->state == model::TaskState::done) return 0;
    if (task->signal) return 128 + *task->signal;
    return task->exit_code && *task->exit_code != 0 ? *task->exit_code : not_all_done;
  }
  return std::all_of(ended.begin(), ended.end(), is_done) ? 0 : not_all_done;
}

void tell(const Context& context, const std::vector<model::Job>& jobs) {
  for (const model::Job& job : jobs) {
    if (is_done(job) || job.counts.ended() < job.tasks) continue;
    const std::uint64_t done = job.counts[model::TaskState::done];
    context.note(fmt::format("job {}: {}{}", job.id, app::state_of(job),
                             job.tasks > 1 ? fmt::format(" ({} of {} tasks done)", done, job.tasks) : ""));
  }
}

}  // namespace

int wait(Context& context) {
  const WaitOptions& options = context.invocation.queue.wait;
  port::JobStore* store = find_queue(context);
  if (!store && context.invocation.words.empty()) return 0;   // nothing was ever submitted
  const app::Queue queue = existing_queue(context);
  const auto which = app::selections(queue.store, context.invocation.words);
  app::AwaitOptions wish;
  wish.any = options.any;
  if (options.timeout) wish.timeout = *options.timeout;
  wish.cancel = {context.wire.interruption()};
  app::GoingOn going = going_on(context);
  wish.going_on = &going;
  const app::Awaited awaited = app::await(queue.store, queue.clock, which, wish);
  if (awaited.why == app::Awaited::Why::interrupted) throw Error(ErrorCode::interrupted, "the wait was interrupted");
  if (awaited.why == app::Awaited::Why::timed_out)
    throw Error(ErrorCode::timed_out, fmt::format("not over after {}", format_duration(*options.timeout)));
  std::vector<model::Job> ended = awaited.jobs;
  if (options.any) std::erase_if(ended, [](const model::Job& job) { return job.counts.ended() < job.tasks; });
  if (context.invocation.global.json) {
    model::Json json = {{"schema", "thole/waited/1"}, {"jobs", model::Json::array()}};
    for (const model::Job& job : ended)
      json["jobs"].push_back(
          {{"job", job.id}, {"state", app::state_of(job)}, {"tasks", job.tasks}, {"done", job.counts[model::TaskState::done]}});
    context.print_json(json);
  } else {
    tell(context, ended);
  }
  return status_of(queue.store, ended, which);
}

}  // namespace thole::cli
