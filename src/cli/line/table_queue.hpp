// The rows of the queue's verbs, in the shape of table.cpp, which alone includes this.
#pragma once

#include "cli/line/queue_words.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"

namespace thole::cli::queue_rows {

// clang-format off
using I = Invocation;
using W = Word;

constexpr Option submit[] = {
  {'n', "name", "NAME", "what to call it (default: its command); commands take the name instead of its number",
   [](I& i, const W& w) { i.queue.submit.spec.name = job_name_of(w); }},
  {0, "tag", "TAG,...", "a mark to find it by; may be given several times",
   [](I& i, const W& w) { add_tags(i.queue.submit.spec.tags, w); }},
  {0, "grid", "NAME=VALUES", "a task for each value, with {NAME} in the command: lr=1e-3,1e-4 or seed=0..4; several multiply",
   [](I& i, const W& w) { i.queue.submit.grid.push_back(text_of(w)); }},
  {0, "array", "RANGE", "a task for each number, with {index} in the command: 0-99, 1-10:3, or 0-99%4 for four at once",
   [](I& i, const W& w) { i.queue.submit.array = text_of(w); }},
  {0, "csv", "FILE", "a task for each row; the first row names the variables (- is stdin)",
   [](I& i, const W& w) { i.queue.submit.csv = text_of(w); }, Offer::files},
  {0, "each-line", "FILE", "a task for each line, which stands for {} or is the last word of the command (- is stdin)",
   [](I& i, const W& w) { i.queue.submit.lines = text_of(w); }, Offer::files},
  {0, "file", "FILE", "the jobs of a TOML file (- is stdin)",
   [](I& i, const W& w) { i.queue.submit.file = text_of(w); }, Offer::files},
  {0, "at-most", "N", "at most N of its tasks at once",
   [](I& i, const W& w) { i.queue.submit.terms.at_most = number_of(w, 1, 1'000'000); }},
  {0, "per-gpu", "K", "K of its tasks at once on the GPUs that one of them asks for",
   [](I& i, const W& w) { i.queue.submit.spec.per_gpu = number_of(w, 1, 64); }},
  {0, "after", "JOB[:ok|any|fail],...", "not before these have ended: all tasks done (ok, the default), however (any), not "
   "all done (fail)",
   [](I& i, const W& w) { i.queue.submit.after.push_back(text_of(w)); }, Offer::jobs},
  {0, "begin", "TIME", "not before: 22:00, \"2026-11-23 08:00\", or a time from now such as 2h",
   [](I& i, const W& w) { i.queue.submit.begin = text_of(w); }},
  {'p', "priority", "N", "jobs with a higher one go first (default 0; may be negative)",
   [](I& i, const W& w) { i.queue.submit.terms.priority = priority_of(w); }},
  {0, "hold", "", "keep it until `thole resume`", [](I& i, const W&) { i.queue.submit.terms.held = true; }},
  {0, "retry", "WHAT,...", "run a task again: N times (default 1), and after what: fail, exit:CODE, signal, signal:NAME, oom, "
   "lost",
   [](I& i, const W& w) { i.queue.submit.spec.retry = retry_of(w, i.queue.submit.spec.retry.pause); }},
  {0, "retry-pause", "TIME", "wait this long before a task's second run, twice as long before its third, and so on",
   [](I& i, const W& w) { i.queue.submit.spec.retry.pause = std::chrono::ceil<Seconds>(duration_of(w)); }},
  {0, "patience", "TIME", "between INT, TERM and KILL when a task has to end (default 10s)",
   [](I& i, const W& w) { i.queue.submit.spec.patience = std::chrono::ceil<Seconds>(positive_duration_of(w)); }},
  {0, "leave", "N", "start only while N GPUs stay free for others",
   [](I& i, const W& w) { i.queue.submit.spec.leave = count_of(w); }},
  {0, "linger", "", "when a task's command ends, wait for the processes it leaves behind instead of ending them",
   [](I& i, const W&) { i.queue.submit.spec.linger = true; }},
  {0, "log-limit", "SIZE", "keep the beginning and the end of a log that grows beyond SIZE (1M at least)",
   [](I& i, const W& w) { i.queue.submit.spec.log_limit_mib = size_mib_of(w); }},
  {0, "notify", "COMMAND", "run COMMAND with sh once the job has ended (THOLE_JOB and THOLE_JOB_STATE say which and how)",
   [](I& i, const W& w) { i.queue.submit.spec.notify = text_of(w); }},
  {0, "if-absent", "", "submit nothing when a job of this name has not ended yet",
   [](I& i, const W&) { i.queue.submit.if_absent = true; }},
  {0, "snapshot", "", "copy the code now (what git tracks or would, else the directory) and run in the copy",
   [](I& i, const W&) { i.queue.submit.snapshot = true; }},
  {'C', "directory", "DIR", "run in DIR instead of here",
   [](I& i, const W& w) { i.queue.submit.directory = text_of(w); }, Offer::directories},
  {0, "env", "NAME=VALUE", "a variable for its tasks, beside those of this shell",
   [](I& i, const W& w) { i.queue.submit.env.push_back(variable_of(w)); }},
  {0, "dry-run", "", "show what would be submitted, and submit nothing", [](I& i, const W&) { i.run.dry_run = true; }},
  {0, "ids", "FORM", "what CUDA_VISIBLE_DEVICES holds: auto (default), uuid or index",
   [](I& i, const W& w) { i.run.ids = choice_of(w, "auto|uuid|index"); }, Offer::choices, "auto|uuid|index"},
};

constexpr Option jobs[] = {
  {'a', "all", "", "all that are remembered, not only those of the last day",
   [](I& i, const W&) { i.queue.jobs.all = true; }},
  {0, "tasks", "", "a line for each task that has started, instead of one for the job",
   [](I& i, const W&) { i.queue.jobs.tasks = true; }},
  {0, "state", "STATE,...", "only jobs with tasks in one of these states",
   [](I& i, const W& w) { i.queue.jobs.states = states_of(w); }, Offer::choices,
   "queued|held|running|done|failed|lost|cancelled|skipped"},
  {0, "tag", "TAG,...", "only jobs with all of these tags", [](I& i, const W& w) { add_words(i.queue.jobs.tags, w); }},
  {'w', "watch", "", "stay and show how it goes on, until Ctrl-C", [](I& i, const W&) { i.queue.jobs.watch = true; }},
};

constexpr Option logs[] = {
  {'f', "follow", "", "go on until the task ends", [](I& i, const W&) { i.queue.logs.follow = true; }},
  {0, "lines", "N", "only the last N lines", [](I& i, const W& w) { i.queue.logs.lines = number_of(w, 0, 1'000'000'000); }},
  {0, "path", "", "the name of the file, not what is in it", [](I& i, const W&) { i.queue.logs.path = true; }},
};

constexpr Option wait[] = {
  {0, "any", "", "until one of them has ended", [](I& i, const W&) { i.queue.wait.any = true; }},
  {0, "timeout", "TIME", "exit 124 when that takes longer than TIME",
   [](I& i, const W& w) { i.queue.wait.timeout = duration_of(w); }},
};

constexpr Option cancel[] = {
  {0, "force", "", "end what the queue's runner does not see (a killed lane's, in a container) without a look if it is over",
   [](I& i, const W&) { i.queue.cancel_force = true; }},
};

constexpr Option drain[] = {
  {0, "off", "", "start tasks again", [](I& i, const W&) { i.queue.drain_off = true; }},
};

constexpr Option edit[] = {
  {'p', "priority", "N", "jobs with a higher one go first",
   [](I& i, const W& w) { i.queue.edit.priority = priority_of(w); }},
  {0, "at-most", "N", "at most N of its tasks at once, or none for no limit",
   [](I& i, const W& w) { i.queue.edit.at_most = text_of(w); }},
  {0, "begin", "TIME", "not before TIME, or now", [](I& i, const W& w) { i.queue.edit.begin = text_of(w); }},
  {'t', "time", "TIME", "the limit of each task that has not started, or none",
   [](I& i, const W& w) { i.queue.edit.time = limit_of(w); }},
  {0, "after", "JOB[:ok|any|fail],...", "wait for these instead, or for none",
   [](I& i, const W& w) { i.queue.edit.after.push_back(text_of(w)); }, Offer::jobs},
};

constexpr Example submit_examples[] = {
  {"thole submit -g 2 --time 8h python train.py", "two GPUs for at most eight hours, whenever they are free"},
  {"thole submit --grid lr=1e-3,1e-4 --grid seed=0..4 python t.py {lr} {seed}", "ten tasks"},
  {"thole submit --after @ python evaluate.py", "when the job submitted before has succeeded"},
};
constexpr Example jobs_examples[] = {
  {"thole jobs", "what is queued, runs, and ended within the last day"},
  {"thole jobs 12 --tasks", "the tasks of job 12"},
  {"thole jobs --watch", "how it goes on"},
};
constexpr Example logs_examples[] = {
  {"thole logs", "the output of the newest job"},
  {"thole logs -f 12.3", "that of task 3 of job 12, as it comes"},
};
constexpr Example wait_examples[] = {
  {"thole wait", "until nothing is queued or runs"},
  {"thole wait 12", "until job 12 has ended; exits with its status"},
};
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
constexpr Example drain_examples[] = {
  {"thole drain", "what runs may finish, and nothing starts"},
  {"thole drain --off", "start tasks again"},
};
constexpr Example edit_examples[] = {
  {"thole edit 12 --priority 10", "let it go first"},
  {"thole edit 12 --after none --begin now", "wait for nothing but GPUs"},
};
// clang-format on

}  // namespace thole::cli::queue_rows
