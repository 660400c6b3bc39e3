#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/claim/inside_another.hpp"
#include "app/queue/job_list.hpp"
#include "app/queue/job_names.hpp"
#include "app/queue/job_parts.hpp"
#include "app/queue/ports.hpp"
#include "app/queue/put_off.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/queue_site.hpp"
#include "cli/show/overview.hpp"
#include "cli/show/render_jobs.hpp"

namespace thole::cli {

namespace {

struct WaitOptions {
  std::optional<Millis> timeout;
  bool any = false;
};

constexpr Option wait_options[] = {
  {0, "any", "", "until one of them has ended", [](WaitOptions& o, const Word&) { o.any = true; }},
  {0, "timeout", "TIME", "exit 124 when that takes longer than TIME",
   [](WaitOptions& o, const Word& w) { o.timeout = duration_of(w); }},
};

constexpr int not_all_done = 1;

bool has_ended(const app::JobPart& part) { return part.counts.ended() == part.size(); }

bool is_done(const app::JobPart& part) { return part.counts[model::TaskState::done] == part.size(); }

// One task ends the wait with its own status, as if it had been started here; of several it is 0 when all of them are done.
int status_of(port::JobReader& jobs, const std::vector<app::JobPart>& ended) {
  if (ended.size() == 1 && ended.front().size() == 1) {
    const auto task = jobs.task(ended.front().job.id, ended.front().range().first);
    if (!task || task->state == model::TaskState::done) return 0;
    if (task->signal) return 128 + *task->signal;
    return task->exit_code && *task->exit_code != 0 ? *task->exit_code : not_all_done;
  }
  return std::ranges::all_of(ended, is_done) ? 0 : not_all_done;
}

void tell(const Context& context, const std::vector<app::JobPart>& ended) {
  for (const app::JobPart& part : ended) {
    if (is_done(part) || !has_ended(part)) continue;
    const std::uint64_t done = part.counts[model::TaskState::done];
    context.note(fmt::format("job {}: {}{}", part.name(), app::state_of(part.counts),
                             part.size() > 1 ? fmt::format(" ({} of {} tasks done)", done, part.size()) : ""));
  }
}

model::Json to_json(const std::vector<app::JobPart>& ended) {
  model::Json json = {{"schema", "thole/waited/1"}, {"jobs", model::Json::array()}};
  for (const app::JobPart& part : ended)
    json["jobs"].push_back({{"job", part.job.id},
                            {"which", part.name()},
                            {"state", app::state_of(part.counts)},
                            {"tasks", part.size()},
                            {"done", part.counts[model::TaskState::done]}});
  return json;
}

// Of what waits for GPUs that are ours as long as this waits.
void tell_of_waiting_for_oneself(Context& context, port::JobReader& jobs, const std::vector<port::Selection>& which) {
  const auto& inside = context.wire.settings().environment;
  if (!inside.contains("THOLE_CLAIM")) return;
  port::JobQuery query;
  query.ids = which;
  query.unended_only = true;
  std::set<std::uint64_t> asked;                 // of each request class one
  for (const model::Job& job : jobs.jobs(query)) {
    if (job.gpus == 0 || job.counts[model::TaskState::running] > 0 || !asked.insert(job.request_class).second) continue;
    const std::string around = app::claim_that_keeps_from(glance_over(context), inside, jobs.spec(job.id).request);
    if (around.empty()) continue;
    return context.warn(fmt::format("job {} waits for GPUs of claim {}, inside which this waits: it cannot start before that "
                                    "ends", job.id, printable(around, 16)));
  }
}

// The job of this queue whose task waits here. Who names that very task, or all of its job, would wait without end.
std::optional<model::JobId> job_around(const Context& context, port::JobStore& jobs,
                                       const std::vector<port::Selection>& which) {
  const auto& inside = context.wire.settings().environment;
  const auto word = inside.find("THOLE_TASK");
  if (word == inside.end()) return std::nullopt;
  const auto own = app::task_of_mark(jobs.secret(), word->second);
  if (!own) return std::nullopt;
  const auto [job, task] = *own;
  for (const port::Selection& one : which)
    if (!context.invocation.own.as<WaitOptions>().any && one.first <= job && job <= one.last &&
        (!one.tasks || (one.tasks->first <= task && task <= one.tasks->second)))
      throw Error(ErrorCode::usage, fmt::format("job {} would wait for itself: this is its task {}", job, task))
          .hint("name other jobs; without a name it waits for all others");
  return job;
}

bool stands_still(port::JobReader& jobs, const model::Job& job) {
  constexpr std::uint64_t most = 128;            // running tasks of one job that are looked at
  if (job.counts[model::TaskState::running] == 0) return false;
  const auto running = jobs.tasks(job.id, 0, most, {model::TaskState::running});
  const auto stands = [](const model::Task& task) { return task.paused && !task.cancel_asked; };
  return !running.empty() && std::ranges::all_of(running, stands);
}

// Of what goes on only when somebody says so, who may be the one that waits.
void tell_of_kept_back(const Context& context, port::JobReader& jobs, const std::vector<port::Selection>& which) {
  constexpr std::size_t most_looked_at = 1000, most_named = 3;
  port::JobQuery query;
  query.ids = which;
  query.unended_only = true;
  query.newest_first = true;
  query.limit = most_looked_at;
  std::vector<std::string> held, paused;
  bool queued = false;
  for (const model::Job& job : jobs.jobs(query)) {
    const model::TaskCounts counts = app::counts_of(job);
    queued = queued || counts[model::TaskState::queued] > 0;
    if (counts[model::TaskState::queued] > 0) continue;
    if (stands_still(jobs, job)) paused.push_back(std::to_string(job.id));
    else if (counts[model::TaskState::held] > 0 && counts[model::TaskState::running] == 0)
      held.push_back(std::to_string(job.id));
  }
  const auto note = [&](std::vector<std::string> ids, const char* state, const char* verb) {
    if (ids.empty()) return;
    std::ranges::reverse(ids);
    const std::string more = and_more(ids.size(), most_named);
    if (ids.size() > most_named) ids.resize(most_named);
    const bool one = ids.size() == 1;
    context.note(fmt::format("waits for job{} {}{}, which {} {}: thole {} {}", one ? "" : "s", join(ids, ", "), more,
                             one ? "is" : "are", state, verb, join(ids, " ")));
  };
  note(std::move(held), "held", "resume");
  note(std::move(paused), "paused", "continue");
  if (queued && jobs.draining()) context.note("the queue is drained: nothing starts until thole drain --off");
}

// What keeps the queue from going on, or from showing it: each is said when it begins.
class Hindrances {
 public:
  Hindrances(const Context& context, app::Queue queue) : context_(context), queue_(queue) {}

  void tell() {
    const std::string full = queue_.door.full_disk(), read_only = queue_.door.read_only_disk();
    tell(Kind::full, full.empty() ? "" : app::why_unwritten(full) + ": nothing begins, and what ends is not written, before "
                                                                    "there is room");
    tell(Kind::read_only, read_only.empty() ? "" : app::why_perhaps_old(read_only));
    if (full.empty() && read_only.empty()) tell_of_log();
  }

 private:
  enum class Kind { full, read_only, runner, lane };

  // Not at each of very many changes.
  void tell_of_log() {
    constexpr Seconds between_looks{1};
    const SteadyTime now = queue_.clock.steady();
    if (now < next_look_) return;
    next_look_ = now + between_looks;
    const std::string log = queue_.door.last_said();
    const std::string kept = app::runner_kept_in(log);
    tell(Kind::runner, kept.empty() ? "" : "the queue's runner can begin nothing yet: " + printable(kept, 300));
    tell(Kind::lane, printable(app::unstored_in(log, queue_.clock.wall()), 500));
  }

  void tell(Kind what, const std::string& text) {
    if (text.empty()) told_.erase(what);
    else if (told_.insert(what).second) context_.warn(text);
  }

  const Context& context_;
  app::Queue queue_;
  std::set<Kind> told_;
  SteadyTime next_look_{};
};

int wait(Context& context) {
  const WaitOptions& options = context.invocation.own.as<WaitOptions>();
  port::JobStore* store = find_queue(context);
  if (!store && context.invocation.words.empty()) {   // nothing was ever submitted
    tell_of_other_queues(context);
    return 0;
  }
  const app::Queue queue = existing_queue(context);
  const auto which = app::selections(queue.store, context.invocation.words);
  app::AwaitOptions wish;
  wish.any = options.any;
  wish.inside = job_around(context, queue.store, which);
  if (options.timeout) wish.timeout = *options.timeout;
  wish.cancel = {context.wire.interruption()};
  app::GoingOn going = going_on(context);
  wish.going_on = &going;
  Hindrances hindrances(context, queue);
  wish.before_sleep = [&] { hindrances.tell(); };
  going.look();
  if (const app::Caution caution = app::of_originals(queue, which); !caution.empty()) context.warn(caution);
  tell_of_waiting_for_oneself(context, queue.store, which);
  tell_of_kept_back(context, queue.store, which);
  const app::Awaited awaited = app::await(queue.store, queue.clock, which, wish);
  if (awaited.why == app::Awaited::Why::interrupted) throw Error(ErrorCode::interrupted, "the wait was interrupted");
  if (awaited.why == app::Awaited::Why::timed_out)
    throw Error(ErrorCode::timed_out, fmt::format("not over after {}", format_duration(*options.timeout)));
  std::vector<app::JobPart> ended;
  if (which.empty()) std::ranges::transform(awaited.jobs, std::back_inserter(ended), app::whole);
  else ended = app::parts_of(queue.store, which);
  if (!which.empty() && ended.empty())   // its file, or its log, was lost meanwhile
    throw Error(ErrorCode::unavailable, "what was waited for is no longer in the queue: nobody can tell how it ended")
        .about(context.invocation.words.front()).hint("thole jobs; thole doctor");
  if (options.any) std::erase_if(ended, [](const app::JobPart& part) { return !has_ended(part); });
  if (context.invocation.global.json) context.print_json(to_json(ended));
  else tell(context, ended);
  return status_of(queue.store, ended);
}

constexpr Example wait_examples[] = {
  {"thole wait", "until nothing is queued or runs"},
  {"thole wait 12", "until job 12 has ended; exits with its status"},
};

}  // namespace

extern constexpr Verb wait_verb = {
    .name = "wait",
    .group = "queue",
    .summary = "wait until jobs have ended",
    .operands = "[JOB...]",
    .options = wait_options,
    .examples = wait_examples,
    .offer = Offer::jobs,
    .max_words = 128,
    .run = wait,
};

}  // namespace thole::cli
