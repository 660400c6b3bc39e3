#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "app/queue/change_watch.hpp"
#include "app/queue/job_list.hpp"
#include "app/queue/job_names.hpp"
#include "base/fd.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/line/queue_words.hpp"
#include "cli/line/table.hpp"
#include "cli/queue_site.hpp"
#include "cli/show/low_screen.hpp"
#include "cli/show/overview.hpp"
#include "cli/show/render_jobs.hpp"
#include "cli/show/watched.hpp"
#include "wire/survey.hpp"

namespace thole::cli {

namespace {

struct JobsOptions {
  bool all = false;
  bool tasks = false;
  bool watch = false;
  std::set<model::TaskState> states;
  std::vector<std::string> tags;
};

constexpr Option jobs_options[] = {
  {'a', "all", "", "all that are remembered, not only those of the last day",
   [](JobsOptions& o, const Word&) { o.all = true; }},
  {0, "tasks", "", "a line for each task that has started, instead of one for the job",
   [](JobsOptions& o, const Word&) { o.tasks = true; }},
  {0, "state", "STATE,...", "only jobs with tasks in one of these states",
   [](JobsOptions& o, const Word& w) { o.states = states_of(w); }, Offer::choices,
   "queued|held|running|done|failed|lost|cancelled|skipped"},
  {0, "tag", "TAG,...", "only jobs with all of these tags", [](JobsOptions& o, const Word& w) { add_words(o.tags, w); }},
  {'w', "watch", "", "stay and show how it goes on, until Ctrl-C", [](JobsOptions& o, const Word&) { o.watch = true; }},
};

constexpr Seconds recent{24 * 3600};
constexpr std::size_t most_queued = 20, most_ended = 20;   // lines without --all: what fits a screen with what runs
constexpr Millis between_frames{200};            // when changes come thick
constexpr Seconds clock_step{1};                 // while something runs its time goes on

app::JobListWish wish_of(const Context& context, port::JobReader& jobs, WallTime now) {
  const JobsOptions& options = context.invocation.own.as<JobsOptions>();
  app::JobListWish wish;
  wish.states = options.states;
  wish.tags = options.tags;
  const bool all = options.all || !options.states.empty() || !options.tags.empty();
  if (!context.invocation.words.empty()) wish.which = app::selections(jobs, context.invocation.words);
  else if (!all) wish.ended_since = now - recent;
  if (!all && !wish.which && !context.invocation.global.json) {
    wish.most_queued = most_queued;
    wish.most_ended = most_ended;
  }
  return wish;
}

app::JobList look(Context& context, port::JobReader& jobs) {
  const WallTime now = context.wire.clock().wall();
  const app::Overview overview = glance_over(context);
  return app::list_jobs(jobs, &overview, wish_of(context, jobs, now), now, &queue_of(context).door);
}

std::vector<model::Task> tasks_of(Context& context, port::JobReader& jobs) {
  std::vector<model::Task> all;
  std::vector<port::Selection> which;
  if (context.invocation.words.empty()) {        // of the jobs that the list without --tasks has
    app::JobListWish wish = wish_of(context, jobs, context.wire.clock().wall());
    wish.most_queued = wish.most_ended = ~std::size_t{0};
    for (const app::JobLine& line : app::list_jobs(jobs, nullptr, wish, context.wire.clock().wall()).lines)
      which.push_back({line.job.id, line.job.id, std::nullopt});
    std::ranges::sort(which, {}, &port::Selection::first);
  } else {
    which = app::selections(jobs, context.invocation.words);
  }
  for (const port::Selection& one : which)
    for (const model::Job& job : app::jobs_of(jobs, {one})) {
      const auto [first, last] = one.tasks.value_or(std::pair<model::TaskIndex, model::TaskIndex>{0, job.tasks - 1});
      for (model::Task& task : app::tasks_of(jobs, job, first, last, context.invocation.own.as<JobsOptions>().states))
        all.push_back(std::move(task));
    }
  return all;
}

// With the ends that could not be written, for people: a program goes by what is stored.
std::vector<model::Task> known_tasks_of(Context& context, port::JobReader& jobs, WallTime now) {
  std::vector<model::Task> all = tasks_of(context, jobs);
  port::QueueDoor& door = queue_of(context).door;
  for (model::Task& task : all) {
    const auto end = task.state == model::TaskState::running ? app::unwritten_end(door, task, now) : std::nullopt;
    if (!end) continue;
    task.ended = end->at;
    task.exit_code = end->exit_code;
    task.signal = end->signal;
  }
  return all;
}

model::Json tasks_to_json(const std::vector<model::Task>& tasks, WallTime now) {
  model::Json json = {{"schema", "thole/tasks/1"}, {"taken_at", format_iso(now)}, {"tasks", model::Json::array()}};
  for (const model::Task& task : tasks) json["tasks"].push_back(cli::to_json(task));
  return json;
}

int show_tasks(Context& context, port::JobReader& jobs) {
  const WallTime now = context.wire.clock().wall();
  if (context.invocation.global.json) context.print_json(tasks_to_json(tasks_of(context, jobs), now));
  else context.print(render_tasks(known_tasks_of(context, jobs, now), now, context.screen));
  return 0;
}

// "9 tasks a minute"
std::string end_rate(const app::JobList& list, WallTime since, std::uint64_t ended_then) {
  const double minutes = static_cast<double>((list.now - since).count()) / 60e3;
  const std::uint64_t ended = list.tasks.ended();
  if (minutes < 0.05 || ended <= ended_then) return "";
  const double rate = static_cast<double>(ended - ended_then) / minutes;
  return rate >= 1 ? fmt::format("{:.0f} tasks a minute", rate) : fmt::format("{:.1f} tasks an hour", rate * 60);
}

std::string when_over(const app::JobList& list) {
  std::optional<WallTime> last;
  for (const app::JobLine& line : list.lines)
    if (line.expected_end && (!last || *line.expected_end > *last)) last = line.expected_end;
  return last ? ", ends about " + format_local(*last, list.now) : "";
}

bool something_runs(const app::JobList& list) { return list.tasks[model::TaskState::running] > 0; }

// What tells of changes, and sees to it that there are some.
struct News {
  port::JobReader& jobs;
  app::GoingOn going_on;
  app::ChangeWatch watch{jobs, port::Changes::any};
};

// Waits until the queue changes, or the shown times do. False when somebody has seen enough.
bool wait_for_news(const Context& context, Watched& watched, News& news, bool times_go_on) {
  if (!watched.wait({}, between_frames)) return false;   // changes that come together make one frame
  if (watched.is_blank()) return true;                   // it was stopped
  for (;;) {
    news.going_on.look();
    Millis patience = std::max(Millis{0}, std::chrono::ceil<Millis>(news.going_on.next_look() - context.wire.clock().steady()));
    if (times_go_on) patience = std::min<Millis>(patience, clock_step);
    patience = std::min(patience, news.watch.patience());
    if (!watched.wait({news.watch.fd(), news.going_on.fd()}, patience)) return false;
    if (watched.is_blank()) return true;
    const bool missed = news.watch.renew() || !news.watch.is_told();
    // Else only the runner has gone, or it was time to look.
    if (!missed && !times_go_on && !is_readable(news.watch.fd())) continue;
    news.watch.drain();
    return true;
  }
}

void stay(Context& context, port::JobReader& jobs) {
  News news{jobs, going_on(context)};
  Watched watched(context);
  std::optional<std::uint64_t> ended_first;
  WallTime first{};
  bool times_go_on = false;
  const bool of_tasks = context.invocation.own.as<JobsOptions>().tasks;
  do {
    const app::JobList list = look(context, jobs);
    if (!ended_first) {
      ended_first = list.tasks.ended();
      first = list.now;
    }
    const Screen screen = watched.screen();
    times_go_on = screen.terminal() && something_runs(list);
    if (context.invocation.global.json) {
      context.print_json(of_tasks ? tasks_to_json(tasks_of(context, jobs), list.now) : jobs_to_json(list), -1);
    } else {
      const std::string rate = end_rate(list, first, *ended_first);
      const std::string head =
          fmt::format("thole jobs, {}{}{}{}{}\n", format_local(list.now, list.now), rate.empty() ? "" : ": ", rate,
                      when_over(list), screen.terminal() ? "; q ends it" : "");
      const std::size_t most = screen.terminal() ? std::max<std::size_t>(screen.rows, 4) - 2 : 0;   // without head and last row
      watched.show(head + (of_tasks ? tasks_in_lines(known_tasks_of(context, jobs, list.now), list.now, screen, most)
                                    : jobs_in_lines(list, screen, most)),
                   screen);
    }
  } while (wait_for_news(context, watched, news, times_go_on));
}

int jobs(Context& context) {
  const JobsOptions& options = context.invocation.own.as<JobsOptions>();
  port::JobStore* store = find_queue(context);
  if (!store) {
    if (!context.invocation.words.empty())
      throw nothing_submitted(context);
    if (!options.watch) {
      app::JobList none;
      none.now = context.wire.clock().wall();
      if (context.invocation.global.json) context.print_json(jobs_to_json(none));
      else context.print(render_jobs(none, context.screen));
      tell_of_other_queues(context);
      return 0;
    }
    store = &queue_of(context).store;
  }
  keep_going(context);
  if (options.watch) {
    stay(context, *store);
    return 0;
  }
  if (options.tasks) return show_tasks(context, *store);
  const app::JobList list = look(context, *store);
  if (context.invocation.global.json) context.print_json(jobs_to_json(list));
  else context.print(render_jobs(list, context.screen));
  if (list.lines.empty() && context.invocation.words.empty()) tell_of_other_queues(context);
  return 0;
}

constexpr Example jobs_examples[] = {
  {"thole jobs", "what is queued, runs, and ended within the last day"},
  {"thole jobs 12 --tasks", "the tasks of job 12"},
  {"thole jobs --watch", "how it goes on"},
};

}  // namespace

extern constexpr Verb jobs_verb = {
    .name = "jobs",
    .group = "queue",
    .summary = "what is queued, runs and has ended, and what it waits for",
    .operands = "[JOB...]",
    .options = jobs_options,
    .examples = jobs_examples,
    .offer = Offer::jobs,
    .max_words = 128,
    .run = jobs,
};

}  // namespace thole::cli
