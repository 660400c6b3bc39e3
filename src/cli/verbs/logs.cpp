#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/queue/change_watch.hpp"
#include "app/queue/job_list.hpp"
#include "app/queue/job_names.hpp"
#include "base/same_file.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/queue_site.hpp"
#include "cli/show/overview.hpp"
#include "cli/show/render_jobs.hpp"
#include "wire/log_text.hpp"

namespace thole::cli {

namespace {

struct LogsOptions {
  bool follow = false;
  bool path = false;
  std::optional<std::uint64_t> lines;            // only the last so many
};

constexpr Option logs_options[] = {
  {'f', "follow", "", "go on until the task ends", [](LogsOptions& o, const Word&) { o.follow = true; }},
  {0, "lines", "N", "only the last N lines", [](LogsOptions& o, const Word& w) { o.lines = number_of(w, 0, 1'000'000'000); }},
  {0, "path", "", "the name of the file, not what is in it", [](LogsOptions& o, const Word&) { o.path = true; }},
};

using model::Task;

// Shows the logs of tasks, one after the other.
class Shower {
 public:
  Shower(Context& context, const app::Queue& queue)
      : context_(context), queue_(queue), going_on_(going_on(context)), options_(context.invocation.own.as<LogsOptions>()) {
    going_on_.look();
  }

  // Each task's log; without --follow those that there are.
  void show(const model::Job& job, model::TaskIndex first, model::TaskIndex last) {
    if (options_.follow) {
      for (model::TaskIndex index = first; index <= last; ++index) follow(job, index);
      return;
    }
    bool any = false;
    for (const Task& task : queue_.store.tasks(job.id, first, last - first + 1)) {
      if (task.index > last) break;
      if (task.log.empty()) continue;
      any = true;
      if (!options_.path) show_once(task);
      else if (!context_.invocation.global.json) context_.print(path_of(task) + "\n");
      else paths_.push_back({{"job", job.id}, {"task", task.index}, {"path", path_of(task)}});
    }
    if (!any && !context_.invocation.global.json)
      context_.note(
          fmt::format("{} has no output{}: {}", task_name(job.id, first, first == last ? job.tasks : 1),
                      job.counts.ended() == job.tasks ? "" : " yet", why_not(job)));
  }

  model::Json paths_to_json() const { return {{"schema", "thole/logs/1"}, {"logs", paths_}}; }

 private:
  std::string path_of(const Task& task) const { return queue_.door.log_path(task.log); }

  // What is shown would be written behind it, and be shown again, without end.
  void refuse_own_log(const Task& task) const {
    struct stat log, output;
    if (::stat(path_of(task).c_str(), &log) != 0 || ::fstat(STDOUT_FILENO, &output) != 0) return;
    if (is_one_file(log, output))
      throw Error(ErrorCode::usage,
                  fmt::format("the log of {}.{} is where this writes: it would never end", task.job, task.index))
          .hint("write to another file: > FILE");
  }

  void end_untold(const Task& task, wire::LogText& text) {
    if (!task.log_length && task.state != model::TaskState::running) end_before_others(task, text);
  }

  // Of a run whose lane was killed nobody has written how long its text is: it ends where the next one in its file begins.
  void end_before_others(const Task& task, wire::LogText& text) {
    constexpr std::uint64_t at_once = 4096;
    text.ends_with_what_is_there();
    for (model::TaskIndex from = 0;;) {
      const std::vector<Task> others = queue_.store.tasks(task.job, from, at_once);
      for (const Task& other : others)
        if (other.log_offset > text.start() && path_of(other) == text.path()) text.ends_at(other.log_offset);
      if (others.size() < at_once) return;
      from = others.back().index + 1;
    }
  }

  void show_once(const Task& task) {
    refuse_own_log(task);
    wire::LogText text(path_of(task), task.log_offset, task.log_length);
    end_untold(task, text);
    if (options_.lines) text.skip_to_last(*options_.lines);
    print_rest(text);
  }

  void print_rest(wire::LogText& text) {
    for (std::string piece = text.next(); !piece.empty(); piece = text.next()) context_.copy(piece);
  }

  std::string why_not(const model::Job& job) {
    if (!waits_) {                               // of all jobs at once: each looks at all others
      const app::Overview overview = glance_over(context_);
      waits_.emplace();
      for (app::JobLine& line : app::list_jobs(queue_.store, &overview, {}, context_.wire.clock().wall(), &queue_.door).lines)
        (*waits_)[line.job.id] = line.wait ? line.wait->text : line.state;
    }
    const auto found = waits_->find(job.id);
    return found == waits_->end() ? app::state_of(job) : found->second;
  }

  // After the rest of the run before, which may stand before it in the same file.
  std::unique_ptr<wire::LogText> text_of_run(const Task& task, wire::LogText* before) {
    const std::string path = path_of(task);
    const bool behind = before && before->is_in(path);
    if (before && !before->has_end()) end_before_others(task, *before);
    if (before) print_rest(*before);
    refuse_own_log(task);
    auto text = std::make_unique<wire::LogText>(path, task.log_offset, task.log_length);
    if (behind) text->skip_to(before->position());
    else if (options_.lines && !before) text->skip_to_last(*options_.lines);
    return text;
  }

  // Until the task has ended for good, run after run.
  void follow(const model::Job& job, model::TaskIndex index) {
    app::ChangeWatch watch(queue_.store, port::Changes::any);
    std::unique_ptr<wire::LogText> text;
    unsigned shown = 0;                          // the run that `text` is of
    bool told = false;
    for (;;) {
      const std::optional<Task> task = queue_.store.task(job.id, index);
      if (!task) return;
      if (!task->log.empty() && task->runs != shown) {
        text = text_of_run(*task, text.get());
        shown = task->runs;
      }
      if (text && task->log_length) text->ends_after(*task->log_length);
      if (text && !text->has_end()) end_untold(*task, *text);
      if (text && text->has_end()) print_rest(*text);
      if (model::ended(task->state)) {
        if (!text)
          context_.note(fmt::format("{} has no output: {}", task_name(job.id, index, job.tasks), to_string(task->state)));
        return;
      }
      if (!text && !told) tell_that_it_waits(job, index);
      told = true;
      sleep(watch, *task, text.get());
      watch.renew();
    }
  }

  void tell_that_it_waits(const model::Job& job, model::TaskIndex index) {
    const std::string why = why_not(job);
    const std::optional<Task> now = queue_.store.task(job.id, index);   // that may have taken a while
    const bool waits = now && (now->state == model::TaskState::queued || now->state == model::TaskState::held);
    if (!waits) return;
    if (why != to_string(model::TaskState::running))
      return context_.note(fmt::format("{} waits: {}", task_name(job.id, index, job.tasks), why));
    if (job.tasks > 1) context_.note(fmt::format("{} waits: others of its job run", task_name(job.id, index, job.tasks)));
  }

  // False where there is nothing. Of a text without an end what was read may be another task's, where the run has ended
  // meanwhile: it is read again when that is known.
  bool print_some(const Task& task, wire::LogText& text) {
    const std::uint64_t before = text.position();
    const std::string piece = text.next();
    if (piece.empty()) return false;
    const std::optional<Task> now = queue_.store.task(task.job, task.index);
    if (now && now->runs == task.runs && now->state == model::TaskState::running) context_.copy(piece);
    else text.go_back_to(before);
    return true;
  }

  void sleep(app::ChangeWatch& watch, const Task& task, wire::LogText* text) {
    going_on_.look();
    pollfd sleepers[] = {
        {watch.fd(), POLLIN, 0}, {text ? text->growth() : -1, POLLIN, 0}, {going_on_.fd(), POLLIN, 0}};
    if (text && print_some(task, *text)) return;   // what was written before it was watched
    const SteadyTime now = context_.wire.clock().steady();
    SteadyTime next_look = going_on_.next_look();
    if (!watch.is_told()) next_look = std::min(next_look, now + watch.patience());
    const int timeout = poll_timeout(next_look, now);
    if (::poll(sleepers, std::size(sleepers), timeout) < 0 && errno != EINTR)
      throw Error(ErrorCode::internal, "cannot wait").because(errno);
    if (sleepers[0].revents) watch.drain();
    if (sleepers[1].revents) text->empty_growth();
  }

  Context& context_;
  app::Queue queue_;
  app::GoingOn going_on_;
  const LogsOptions& options_;
  model::Json paths_ = model::Json::array();                   // where they are asked for as JSON
  std::optional<std::map<model::JobId, std::string>> waits_;   // what each job waits for, or how it ended
};

int logs(Context& context) {
  const LogsOptions& options = context.invocation.own.as<LogsOptions>();
  const app::Queue queue = existing_queue(context);
  std::vector<std::string> words = context.invocation.words;
  if (words.empty()) words.emplace_back("last");
  if (context.invocation.global.json && !options.path)
    throw Error(ErrorCode::usage, "logs are text; --json goes with --path")
        .hint("thole jobs --tasks --json tells how tasks ended");
  if (options.path && options.follow)
    throw Error(ErrorCode::usage, "--path tells where a log is, --follow shows it: one of the two");
  Shower shower(context, queue);
  for (const port::Selection& one : app::selections(queue.store, words))
    for (const model::Job& job : app::jobs_of(queue.store, {one})) {
      const auto [first, last] = one.tasks.value_or(std::pair<model::TaskIndex, model::TaskIndex>{0, job.tasks - 1});
      shower.show(job, first, last);
    }
  if (context.invocation.global.json) context.print_json(shower.paths_to_json());
  return 0;
}

constexpr Example logs_examples[] = {
  {"thole logs", "the output of the newest job"},
  {"thole logs -f 12.3", "that of task 3 of job 12, as it comes"},
};

}  // namespace

extern constexpr Verb logs_verb = {
    .name = "logs",
    .group = "queue",
    .summary = "the output of tasks",
    .operands = "[JOB...]",
    .options = logs_options,
    .examples = logs_examples,
    .offer = Offer::jobs,
    .max_words = 128,
    .run = logs,
};

}  // namespace thole::cli
