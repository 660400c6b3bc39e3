// cancel, retry, hold, resume, pause, continue: each changes what is stored of jobs, and tells what that did.
#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "app/queue/job_list.hpp"
#include "app/queue/job_names.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/queue_change.hpp"
#include "cli/queue_site.hpp"

namespace thole::cli {

namespace {

struct CancelOptions {
  bool force = false;
};

constexpr Option cancel_options[] = {
  {0, "force", "", "end what the queue's runner does not see (a killed lane's, in a container) without a look if it is over",
   [](CancelOptions& o, const Word&) { o.force = true; }},
};

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

void tell_of_stays(Context& context, std::span<const port::Altered> altered) {
  std::size_t told = 0, more = 0;
  for (const port::Altered& job : altered) {
    if (job.stays.empty()) continue;
    if (told++ < most_told) context.note(fmt::format("job {}: stays skipped: it {}", job.job, job.stays));
    else ++more;
  }
  if (more > 0) context.note(fmt::format("and {} stay skipped likewise", plural(more, "more job")));
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

int cancel(Context& context) {
  if (!context.invocation.own.as<CancelOptions>().force)
    return alter(context, {port::Verb::cancel, "cancelled", "nothing left to cancel"});
  return alter(context, {port::Verb::give_up, "cancelled, without a look whether it is over", "nothing left to give up"});
}
int retry(Context& context) {
  return alter(context,
               {port::Verb::retry, "queued again",
                "nothing to run again: what has not succeeded, or a task that has ended, by its number"});
}
int hold(Context& context) { return alter(context, {port::Verb::hold, "held", "nothing queued to hold"}); }
int resume(Context& context) { return alter(context, {port::Verb::resume, "queued again", "nothing is held"}); }
int pause(Context& context) { return alter(context, {port::Verb::pause, "paused", "nothing runs that could be paused"}); }
int proceed(Context& context) { return alter(context, {port::Verb::proceed, "going on", "nothing is paused"}); }

constexpr Example cancel_examples[] = {
  {"thole cancel 12", "the queued tasks of job 12, and the running ones with INT, TERM, KILL"},
  {"thole cancel 12.5-9", "these tasks only"},
  {"thole cancel --force 12", "it runs where nobody sees it, and you know that it is over"},
};
constexpr Example retry_examples[] = {
  {"thole retry 12", "what failed, was lost, cancelled or skipped of job 12"},
  {"thole retry 12.3", "this task, even if it succeeded"},
};
constexpr Example hold_examples[] = {
  {"thole hold 12", "no further task of job 12 starts"},
  {"thole hold 12.50-99", "these tasks of it do not"},
};
constexpr Example resume_examples[] = {
  {"thole resume 12", "undo `thole hold 12`"},
  {"thole resume all", "nothing is held any more"},
};
constexpr Example pause_examples[] = {
  {"thole pause 12", "stop the running tasks of job 12; they keep their GPUs"},
  {"thole pause all", "everything of yours that runs"},
};
constexpr Example proceed_examples[] = {
  {"thole continue 12", "undo `thole pause 12`"},
  {"thole continue all", "everything that is paused"},
};

}  // namespace

extern constexpr Verb cancel_verb = {
    .name = "cancel",
    .group = "queue",
    .summary = "take tasks out of the queue, and end running ones",
    .operands = "JOB...",
    .options = cancel_options,
    .examples = cancel_examples,
    .offer = Offer::jobs,
    .min_words = 1,
    .max_words = 128,
    .run = cancel,
};

extern constexpr Verb retry_verb = {
    .name = "retry",
    .group = "queue",
    .summary = "queue again what has not succeeded",
    .operands = "JOB...",
    .examples = retry_examples,
    .offer = Offer::jobs,
    .min_words = 1,
    .max_words = 128,
    .run = retry,
};

extern constexpr Verb hold_verb = {
    .name = "hold",
    .group = "queue",
    .summary = "keep queued tasks from starting",
    .operands = "JOB...",
    .examples = hold_examples,
    .offer = Offer::jobs,
    .min_words = 1,
    .max_words = 128,
    .run = hold,
};

extern constexpr Verb resume_verb = {
    .name = "resume",
    .group = "queue",
    .summary = "undo `hold`",
    .operands = "JOB...",
    .examples = resume_examples,
    .offer = Offer::jobs,
    .min_words = 1,
    .max_words = 128,
    .run = resume,
};

extern constexpr Verb pause_verb = {
    .name = "pause",
    .group = "queue",
    .summary = "stop running tasks where they are",
    .operands = "JOB...",
    .examples = pause_examples,
    .offer = Offer::jobs,
    .min_words = 1,
    .max_words = 128,
    .run = pause,
};

extern constexpr Verb proceed_verb = {
    .name = "continue",
    .group = "queue",
    .summary = "undo `pause`",
    .operands = "JOB...",
    .examples = proceed_examples,
    .offer = Offer::jobs,
    .min_words = 1,
    .max_words = 128,
    .run = proceed,
};

}  // namespace thole::cli
