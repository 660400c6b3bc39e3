// edit: other terms for what has not started.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "app/queue/job_list.hpp"
#include "app/queue/job_names.hpp"
#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/line/queue_words.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/queue_change.hpp"
#include "cli/queue_site.hpp"

namespace thole::cli {

namespace {

// "" = not given; "none" (and for begin "now") takes the term away.
struct EditOptions {
  std::optional<int> priority;
  std::string begin, at_most;
  std::optional<std::optional<Seconds>> time;    // nothing inside: none
  std::vector<std::string> after;
};

constexpr Option edit_options[] = {
  {'p', "priority", "N", "jobs with a higher one go first",
   [](EditOptions& o, const Word& w) { o.priority = priority_of(w); }},
  {0, "at-most", "N", "at most N of its tasks at once, or none for no limit",
   [](EditOptions& o, const Word& w) { o.at_most = text_of(w); }},
  {0, "begin", "TIME", "not before TIME, or now", [](EditOptions& o, const Word& w) { o.begin = text_of(w); }},
  in_whole_seconds({'t', "time", "TIME", "the limit of each task that has not started, or none",
   [](EditOptions& o, const Word& w) { o.time = limit_of(w); }}),
  {0, "after", "JOB[:ok|any|fail],...", "wait for these instead, or for none",
   [](EditOptions& o, const Word& w) { o.after.push_back(text_of(w)); }, Offer::jobs},
};

port::TermsChange change_of(const Context& context, port::JobReader& jobs) {
  const EditOptions& options = context.invocation.own.as<EditOptions>();
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

constexpr Example edit_examples[] = {
  {"thole edit 12 --priority 10", "let it go first"},
  {"thole edit 12 --after none --begin now", "wait for nothing but GPUs"},
};

}  // namespace

extern constexpr Verb edit_verb = {
    .name = "edit",
    .group = "queue",
    .summary = "change the terms of what has not started",
    .operands = "JOB...",
    .options = edit_options,
    .examples = edit_examples,
    .offer = Offer::jobs,
    .min_words = 1,
    .max_words = 128,
    .run = edit,
};

}  // namespace thole::cli
