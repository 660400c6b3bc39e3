#include "app/queue/submit.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "app/claim/inside_another.hpp"
#include "app/claim/run.hpp"
#include "app/queue/abandoned_code.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/context.hpp"
#include "cli/line/binding.hpp"
#include "cli/line/queue_words.hpp"
#include "cli/line/request.hpp"
#include "cli/line/submit_wish.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/lost_input.hpp"
#include "cli/queue_site.hpp"
#include "cli/show/overview.hpp"
#include "model/json_null.hpp"
#include "wire/code_copy.hpp"
#include "wire/queue.hpp"

namespace thole::cli {

namespace {

constexpr Option submit_options[] = {
  {'n', "name", "NAME", "what to call it (default: its command); commands take the name instead of its number",
   [](SubmitOptions& o, const Word& w) { o.spec.name = job_name_of(w); }},
  {0, "tag", "TAG,...", "a mark to find it by; may be given several times",
   [](SubmitOptions& o, const Word& w) { add_tags(o.spec.tags, w); }},
  {0, "grid", "NAME=VALUES", "a task for each value, with {NAME} in the command: lr=1e-3,1e-4 or seed=0..4; several multiply",
   [](SubmitOptions& o, const Word& w) { o.grid.push_back(text_of(w)); }},
  {0, "array", "RANGE", "a task for each number, with {index} in the command: 0-99, 1-10:3, or 0-99%4 for four at once",
   [](SubmitOptions& o, const Word& w) { o.array = text_of(w); }},
  {0, "csv", "FILE", "a task for each row; the first row names the variables (- is stdin)",
   [](SubmitOptions& o, const Word& w) { o.csv = text_of(w); }, Offer::files},
  {0, "each-line", "FILE", "a task for each line, which stands for {} or is the last word of the command (- is stdin)",
   [](SubmitOptions& o, const Word& w) { o.lines = text_of(w); }, Offer::files},
  {0, "file", "FILE", "the jobs of a TOML file (- is stdin)",
   [](SubmitOptions& o, const Word& w) { o.file = text_of(w); }, Offer::files},
  {0, "at-most", "N", "at most N of its tasks at once",
   [](SubmitOptions& o, const Word& w) { o.terms.at_most = number_of(w, 1, 1'000'000); }},
  {0, "per-gpu", "K", "K of its tasks at once on the GPUs that one of them asks for",
   [](SubmitOptions& o, const Word& w) { o.spec.per_gpu = number_of(w, 1, 64); }},
  {0, "after", "JOB[:ok|any|fail],...", "not before these have ended: all tasks done (ok, the default), however (any), not "
   "all done (fail)",
   [](SubmitOptions& o, const Word& w) { o.after.push_back(text_of(w)); }, Offer::jobs},
  {0, "begin", "TIME", "not before: 22:00, \"2026-11-23 08:00\", or a time from now such as 2h",
   [](SubmitOptions& o, const Word& w) { o.begin = text_of(w); }},
  {'p', "priority", "N", "jobs with a higher one go first (default 0; may be negative)",
   [](SubmitOptions& o, const Word& w) { o.terms.priority = priority_of(w); }},
  {0, "hold", "", "keep it until `thole resume`", [](SubmitOptions& o, const Word&) { o.terms.held = true; }},
  {0, "retry", "WHAT,...", "run a task again: N times (default 1), and after what: fail, exit:CODE, signal, signal:NAME, oom, "
   "lost",
   [](SubmitOptions& o, const Word& w) { o.spec.retry = retry_of(w, o.spec.retry.pause); }},
  in_whole_seconds({0, "retry-pause", "TIME",
   "wait this long before a task's second run, twice as long before its third, and so on",
   [](SubmitOptions& o, const Word& w) { o.spec.retry.pause = std::chrono::ceil<Seconds>(duration_of(w)); }}),
  in_whole_seconds({0, "patience", "TIME", "between INT, TERM and KILL when a task has to end (default 10s)",
   [](SubmitOptions& o, const Word& w) { o.spec.patience = std::chrono::ceil<Seconds>(positive_duration_of(w)); }}),
  {0, "leave", "N", "start only while N GPUs stay free for others",
   [](SubmitOptions& o, const Word& w) { o.spec.leave = count_of(w); }},
  {0, "linger", "", "when a task's command ends, wait for the processes it leaves behind instead of ending them",
   [](SubmitOptions& o, const Word&) { o.spec.linger = true; }},
  {0, "log-limit", "SIZE", "keep the beginning and the end of a log that grows beyond SIZE (1M at least)",
   [](SubmitOptions& o, const Word& w) { o.spec.log_limit_mib = size_mib_of(w); }},
  {0, "notify", "COMMAND", "run COMMAND with sh once the job has ended (THOLE_JOB and THOLE_JOB_STATE say which and how)",
   [](SubmitOptions& o, const Word& w) { o.spec.notify = text_of(w); }},
  {0, "if-absent", "", "submit nothing when a job of this name has not ended yet",
   [](SubmitOptions& o, const Word&) { o.if_absent = true; }},
  {0, "snapshot", "", "copy the code now (what git tracks or would, else the directory) and run in the copy",
   [](SubmitOptions& o, const Word&) { o.snapshot = true; }},
  {'C', "directory", "DIR", "run in DIR instead of here",
   [](SubmitOptions& o, const Word& w) { o.directory = text_of(w); }, Offer::directories},
  {0, "env", "NAME=VALUE", "a variable for its tasks, beside those of this shell",
   [](SubmitOptions& o, const Word& w) { o.env.push_back(variable_of(w)); }},
  {0, "dry-run", "", "show what would be submitted, and submit nothing", [](Invocation& i, const Word&) { i.dry_run = true; }},
  ids_row,
};

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
  std::vector<std::string> all = context.wire.paths().all_own();
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
  const SubmitOptions& options = context.invocation.own.as<SubmitOptions>();
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

int submit(Context& context) {
  app::SubmitSite site = submit_site(context);
  app::Prepared prepared = app::prepare(site, submit_wishes(context));
  for (const std::string& note : prepared.notes) context.note(note);
  if (context.invocation.dry_run) return show(context, prepared);
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

constexpr Example submit_examples[] = {
  {"thole submit -g 2 --time 8h python train.py", "two GPUs for at most eight hours, whenever they are free"},
  {"thole submit --grid lr=1e-3,1e-4 --grid seed=0..4 python t.py {lr} {seed}", "ten tasks"},
  {"thole submit --after @ python evaluate.py", "when the job submitted before has succeeded"},
};

}  // namespace

extern constexpr Verb submit_verb = {
    .name = "submit",
    .group = "queue",
    .summary = "put a command, or many, into the queue",
    .operands = "[COMMAND [ARGUMENT...]]",
    .options = submit_options,
    .request = request_without_wait,
    .binding = binding_rows,
    .examples = submit_examples,
    .offer = Offer::command,
    .max_words = ~std::size_t{0},
    .run = submit,
};

}  // namespace thole::cli
