#include "app/queue/submit.hpp"

#include <algorithm>
#include <map>

#include "app/claim/inside_another.hpp"
#include "app/claim/run.hpp"
#include "app/queue/abandoned_code.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/line/submit_wish.hpp"
#include "cli/lost_input.hpp"
#include "cli/queue_site.hpp"
#include "cli/show/overview.hpp"
#include "model/json_null.hpp"
#include "wire/code_copy.hpp"
#include "wire/queue.hpp"

namespace thole::cli {

namespace {

constexpr std::uint64_t most_shown = 10;         // commands under --dry-run

std::string tasks_and_gpus(const port::Submission& job) {
  const unsigned gpus = job.spec.request.gpus;
  const std::string tasks = job.tasks == 1 ? "one task" : fmt::format("{} tasks", job.tasks);
  return tasks + (gpus == 0 ? ", no GPU"
                            : fmt::format(", {}{}", printable(job.spec.request.describe(), 60), job.tasks == 1 ? "" : " each"));
}

std::vector<std::uint64_t> shown_tasks(const port::Submission& job) {
  std::vector<std::uint64_t> tasks;
  for (std::uint64_t task = 0; task < std::min(job.tasks, most_shown); ++task) tasks.push_back(task);
  return tasks;
}

int show(Context& context, const app::Prepared& prepared) {
  model::Json json = {{"schema", "thole/submission/1"}, {"jobs", model::Json::array()}};
  std::string text;
  for (const port::Submission& job : prepared.submissions) {
    model::Json commands = model::Json::array();
    text += fmt::format("{}{}\n", job.spec.name.empty() ? "" : printable(job.spec.name, 60) + ": ", tasks_and_gpus(job));
    for (const std::uint64_t task : shown_tasks(job)) {
      const std::vector<std::string> command = app::command_of(job, task);
      commands.push_back(command);
      text += fmt::format("  {}\n", printable(command_line(command), 4096));
    }
    if (job.tasks > most_shown) text += fmt::format("  … and {} more\n", job.tasks - most_shown);
    json["jobs"].push_back({{"name", model::or_null(job.spec.name)},
                            {"tasks", job.tasks},
                            {"gpus", job.spec.request.gpus},
                            {"on", job.spec.request.on},
                            {"directory", job.spec.directory},
                            {"first_commands", commands}});
  }
  if (context.invocation.global.json) context.print_json(json);
  else context.print(text);
  return 0;
}

// Whoever cannot be told on the standard output would submit them again.
[[noreturn]] void throw_unwritten(const Error& error, const app::Stored& stored) {
  std::string which = fmt::format("job {}", stored.jobs.front().id);
  if (stored.jobs.size() > 1) which = fmt::format("jobs {} to {}", stored.jobs.front().id, stored.jobs.back().id);
  throw Error(error.code(), fmt::format("submitted as {}, but that cannot be written", which)).because(error.sys_errno());
}

void tell(Context& context, const app::Prepared& prepared, const app::Stored& stored) {
  if (context.invocation.global.json) {
    model::Json json = {{"schema", "thole/submitted/1"}, {"jobs", model::Json::array()}};
    for (std::size_t i = 0; i < stored.jobs.size(); ++i) {
      const port::Submission& job = prepared.submissions[i];
      json["jobs"].push_back({{"job", stored.jobs[i].id},
                              {"name", model::or_null(job.spec.name)},
                              {"tasks", job.tasks},
                              {"existed", stored.jobs[i].existed}});
    }
    return context.print_json(json);
  }
  std::string ids;
  for (const port::Submitted& job : stored.jobs) ids += fmt::format("{}\n", job.id);
  context.print(ids);
  for (std::size_t i = 0; i < stored.jobs.size(); ++i) {
    const port::Submission& job = prepared.submissions[i];
    const std::string name = job.spec.name.empty() ? "" : fmt::format(" ({})", printable(job.spec.name, 60));
    if (stored.jobs[i].existed)
      context.note(fmt::format("job {}{} has not ended yet, so nothing was submitted", stored.jobs[i].id, name));
    else context.note(fmt::format("job {}{}: {}", stored.jobs[i].id, name, tasks_and_gpus(job)));
  }
  if (stored.draining) context.note("the queue is drained: nothing starts until thole drain --off");
}

std::vector<std::string> own_directories(Context& context) {
  std::vector<std::string> all = context.wire.places().all_own();
  all.push_back(queue_directory(context));
  return all;
}

// Small copies are not told as one MiB.
std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1 << 10) return plural(bytes, "byte");
  return bytes < 1 << 20 ? fmt::format("{} KiB", (bytes + 1023) >> 10) : format_mib((bytes + (1 << 20) - 1) >> 20);
}

// Copies of the code, one for each job that wants one; those of jobs that were not submitted are removed again.
class Copies {
 public:
  explicit Copies(std::string queue) : queue_(std::move(queue)) {}
  ~Copies() {
    for (const auto& [position, copy] : copies_)
      if (!copy.root.empty()) wire::remove_code(copy.root);
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  void make(std::vector<port::Submission>& jobs, Context& context) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      model::JobSpec& spec = jobs[i].spec;
      if (spec.snapshot.empty()) continue;
      if (copies_.empty()) app::settle_code(queue_of(context).store, queue_of(context).door);
      wire::CodeCopy copy = wire::copy_code(spec.directory, queue_ + "/snapshots", own_directories(context));
      context.note(fmt::format("copied {}, {} ({})", plural(copy.files, "file"), bytes_text(copy.bytes),
                               copy.by_git ? "what git tracks or would" : "the whole directory"));
      spec.environment.push_back("THOLE_SUBMIT_DIR=" + spec.directory);
      spec.directory = copy.directory;
      spec.snapshot = copy.root;
      copies_[i] = std::move(copy);
    }
  }

  void give(const std::vector<port::Submitted>& jobs) {
    for (auto& [position, copy] : copies_) {
      if (jobs[position].existed) continue;
      wire::give_code(copy.root, queue_ + "/logs", jobs[position].id);
      copy.root.clear();
      copy.lock.reset();
    }
  }

 private:
  std::string queue_;
  std::map<std::size_t, wire::CodeCopy> copies_;
};

void warn_of_lost_input(const Context& context) {
  const SubmitOptions& options = context.invocation.queue.submit;
  if (loses_input(std::vector{options.csv, options.lines, options.file}))
    context.warn("what comes in here does not reach the job, whose stdin is empty; it can read a file: thole submit -- sh -c "
                 "'COMMAND < FILE'");
}

// Of the first job that waits for what this runs inside. They are stored by now: where the machine cannot be looked at, nothing
// is said.
void tell_of_claim_around(Context& context, const app::Prepared& prepared, const app::Stored& stored) try {
  const auto& inside = context.wire.settings().environment;
  if (!inside.contains("THOLE_CLAIM")) return;
  const app::Overview overview = glance_over(context);
  for (std::size_t i = 0; i < stored.jobs.size(); ++i) {
    const std::string around = app::claim_that_keeps_from(overview, inside, prepared.submissions[i].spec.request);
    if (around.empty()) continue;
    return context.note(fmt::format("job {} starts when claim {}, inside which this runs, has ended: that has the GPUs",
                                    stored.jobs[i].id, printable(around, 16)));
  }
} catch (const Error&) {
}

}  // namespace

int submit(Context& context) {
  app::SubmitSite site = submit_site(context);
  app::Prepared prepared = app::prepare(site, submit_wishes(context));
  for (const std::string& note : prepared.notes) context.note(note);
  if (context.invocation.run.dry_run) return show(context, prepared);
  if (const std::string& why = context.wire.queue().unexpected(); !why.empty()) context.warn(why);
  Copies copies(queue_directory(context));
  copies.make(prepared.submissions, context);
  const app::Stored stored = app::submit(queue_of(context), prepared.submissions);
  copies.give(stored.jobs);
  try {
    tell(context, prepared, stored);
  } catch (const Error& error) {
    throw_unwritten(error, stored);
  }
  warn_of_lost_input(context);
  tell_of_claim_around(context, prepared, stored);
  if (!stored.surroundings.empty()) context.warn(stored.surroundings);
  if (!stored.caution.empty()) context.warn(stored.caution);
  return 0;
}

}  // namespace thole::cli
