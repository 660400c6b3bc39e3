// cancel, retry, hold, resume, pause, continue, drain, edit: each changes the store and tells what that did.
#include <algorithm>
#include <iterator>
#include <span>

#include "app/queue/job_list.hpp"
#include "app/queue/job_names.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/line/queue_words.hpp"
#include "cli/line/words.hpp"
#include "cli/queue_site.hpp"

namespace thole::cli {

namespace {

// What a verb says it did, and why there may have been nothing to do.
struct Saying {
  port::Verb verb;
  const char* did;
  const char* nothing;
};


std::string tell(const port::Altered& job, const Saying& saying) {
  std::string text = fmt::format("job {}: {} {}", job.job, plural(job.changed, "task"), saying.did);
  if (saying.verb == port::Verb::cancel && !job.running.empty()) {
    const std::uint64_t rest = job.changed - std::min<std::uint64_t>(job.changed, job.running.size());
    text = fmt::format("job {}: ", job.job) + (rest > 0 ? plural(rest, "task") + " cancelled, " : "") +
           plural(job.running.size(), "task") + " being ended";
  }
  return text;
}

constexpr std::size_t most_told = 20;            // jobs with a line of their own

// Retry lifts the hold of a job of which nothing was left to start. Another one keeps also what is queued again. The change
// stands by now: where the job cannot be read, this is left out.
std::string hold_left(port::JobReader& jobs, const port::Altered& altered, const Saying& saying) try {
  if (saying.verb != port::Verb::retry) return "";
  const auto job = app::job_of(jobs, altered.job);
  return job && job->terms.held ? fmt::format(", and held like the rest of it: thole resume {}", altered.job) : "";
} catch (const Error&) {
  return "";
}

// `resume` is of what is held, `continue` of what is paused: who has taken one for the other is told.
std::string other_way_on(port::JobReader& jobs, const std::vector<port::Selection>& which, const Saying& saying) {
  if (saying.verb != port::Verb::resume && saying.verb != port::Verb::proceed) return "";
  for (const model::Job& job : app::jobs_of(jobs, which)) {
    if (saying.verb == port::Verb::proceed && app::counts_of(job)[model::TaskState::held] > 0)
      return fmt::format("; what is held is let go by: thole resume {}", job.id);
    if (saying.verb == port::Verb::proceed || job.counts[model::TaskState::running] == 0) continue;
    const auto running = jobs.tasks(job.id, 0, most_told, {model::TaskState::running});
    if (std::ranges::any_of(running, &model::Task::paused))
      return fmt::format("; what is paused goes on by: thole continue {}", job.id);
  }
  return "";
}

std::string tell_rest(std::span<const port::Altered> jobs, const Saying& saying) {
  std::uint64_t changed = 0, running = 0;
  for (const port::Altered& job : jobs) {
    changed += job.changed;
    running += saying.verb == port::Verb::cancel ? job.running.size() : 0;
  }
  std::string text = fmt::format("and {}: {} {}", plural(jobs.size(), "more job"), plural(changed, "task"), saying.did);
  return running > 0 ? text + fmt::format(", of which {} being ended", plural(running, "task")) : text;
}

// After what was done has been told: who could not be told of it.
class WarnLast {
 public:
  WarnLast(Context& context, const app::Caution& caution) : context_(context), caution_(caution) {}
  ~WarnLast() {
    if (!caution_.empty()) context_.warn(caution_);
  }
  WarnLast(const WarnLast&) = delete;
  WarnLast& operator=(const WarnLast&) = delete;

 private:
  Context& context_;
  const app::Caution& caution_;
};

void tell_of_stays(Context& context, std::span<const port::Altered> altered) {
  std::size_t told = 0, more = 0;
  for (const port::Altered& job : altered) {
    if (job.stays.empty()) continue;
    if (told++ < most_told) context.note(fmt::format("job {}: stays skipped: it {}", job.job, job.stays));
    else ++more;
  }
  if (more > 0) context.note(fmt::format("and {} stay skipped likewise", plural(more, "more job")));
}

// Whoever cannot be told of a change would ask for it again.
void print_change(const Context& context, const model::Json& json) {
  try {
    context.print_json(json);
  } catch (const Error& error) {
    throw Error(error.code(), "what was asked is stored, but that cannot be written").because(error.sys_errno());
  }
}

int alter(Context& context, const Saying& saying) {
  const app::Queue queue = existing_queue(context);
  const auto which = app::selections(queue.store, context.invocation.words);
  const bool given_up = saying.verb == port::Verb::give_up;
  const app::Alteration alteration = given_up ? app::give_up(queue, which) : app::alter(queue, which, saying.verb);
  const std::vector<port::Altered>& altered = alteration.jobs;
  const WarnLast warn_last(context, alteration.caution);
  if (context.invocation.global.json) {
    model::Json json = {{"schema", "thole/altered/1"}, {"did", context.invocation.verb->name}, {"jobs", model::Json::array()}};
    for (const port::Altered& job : altered)
      json["jobs"].push_back({{"job", job.job}, {"tasks_changed", job.changed}, {"running", job.running.size()}});
    print_change(context, json);
    return 0;
  }
  std::vector<port::Altered> changed;            // jobs with nothing to do are not named: "cancel all" says what it did
  std::ranges::copy_if(altered, std::back_inserter(changed), [](const port::Altered& job) { return job.changed > 0; });
  const bool some_stay = std::ranges::any_of(altered, [](const port::Altered& job) { return !job.stays.empty(); });
  const bool some_run = std::ranges::any_of(changed, [](const port::Altered& job) { return !job.running.empty(); });
  if (changed.empty() && !some_stay) context.note(saying.nothing + other_way_on(queue.store, which, saying));
  else if (given_up && some_run) context.note("what still runs of it is not ended by this, and may have its GPUs");
  for (std::size_t i = 0; i < changed.size() && (i < most_told || changed.size() == most_told + 1); ++i)
    context.note(tell(changed[i], saying) + hold_left(queue.store, changed[i], saying));
  if (changed.size() > most_told + 1) context.note(tell_rest(std::span(changed).subspan(most_told), saying));
  tell_of_stays(context, altered);
  return 0;
}

port::TermsChange change_of(const Context& context, port::JobReader& jobs) {
  const EditOptions& options = context.invocation.queue.edit;
  port::TermsChange change;
  change.priority = options.priority;
  if (!options.begin.empty()) {
    change.begin.emplace();
    if (options.begin != "now" && options.begin != "none")
      *change.begin = begin_of({"--begin", options.begin}, context.wire.clock().wall());
  }
  if (!options.at_most.empty()) {
    change.at_most.emplace();
    if (options.at_most != "none") *change.at_most = number_of({"--at-most", options.at_most}, 1, 1'000'000);
  }
  change.time = options.time;
  if (!options.after.empty()) {
    const bool none = options.after == std::vector<std::string>{"none"};
    change.after = none ? std::vector<model::Dependency>{} : app::dependencies(jobs, options.after);
  }
  if (!change.priority && !change.begin && !change.at_most && !change.time && !change.after)
    throw Error(ErrorCode::usage, "edit: nothing to change").hint("such as: thole edit 12 --priority 10");
  return change;
}

}  // namespace

int cancel(Context& context) {
  if (!context.invocation.queue.cancel_force)
    return alter(context, {port::Verb::cancel, "cancelled", "nothing left to cancel"});
  return alter(context, {port::Verb::give_up, "cancelled, without a look whether it is over", "nothing left to give up"});
}
int retry(Context& context) {
  return alter(context,
               {port::Verb::retry, "queued again", "nothing to run again: what has not succeeded, or a task by its number"});
}
int hold(Context& context) { return alter(context, {port::Verb::hold, "held", "nothing queued to hold"}); }
int resume(Context& context) { return alter(context, {port::Verb::resume, "queued again", "nothing is held"}); }
int pause(Context& context) { return alter(context, {port::Verb::pause, "paused", "nothing runs that could be paused"}); }
int proceed(Context& context) { return alter(context, {port::Verb::proceed, "going on", "nothing is paused"}); }

int drain(Context& context) {
  const bool on = !context.invocation.queue.drain_off;
  const app::Queue queue = queue_of(context);
  const app::Caution caution = app::drain(queue, on);
  const WarnLast warn_last(context, caution);
  if (context.invocation.global.json) print_change(context, {{"schema", "thole/drained/1"}, {"draining", on}});
  else context.note(on ? "drained: what runs may finish, and nothing starts until thole drain --off" : "tasks start again");
  return 0;
}

int edit(Context& context) {
  const app::Queue queue = existing_queue(context);
  const auto which = app::selections(queue.store, context.invocation.words);
  if (std::any_of(which.begin(), which.end(), [](const port::Selection& one) { return one.tasks.has_value(); }))
    throw Error(ErrorCode::usage, "edit changes whole jobs").hint("such as: thole edit 12 --priority 10");
  const std::vector<model::Job> jobs = app::jobs_of(queue.store, which);
  const app::Caution caution = app::edit(queue, jobs, change_of(context, queue.store));
  const WarnLast warn_last(context, caution);
  if (context.invocation.global.json) {
    model::Json json = {{"schema", "thole/altered/1"}, {"did", "edit"}, {"jobs", model::Json::array()}};
    for (const model::Job& job : jobs)
      json["jobs"].push_back({{"job", job.id}, {"tasks_changed", nullptr}, {"running", nullptr}});
    print_change(context, json);
    return 0;
  }
  for (const model::Job& job : jobs) {
    const bool ended = job.counts.ended() == job.tasks;   // one that was skipped, and waits for something else from now on
    context.note(fmt::format("job {} changed{}", job.id, ended ? fmt::format("; to run it: thole retry {}", job.id) : ""));
  }
  return 0;
}

}  // namespace thole::cli
