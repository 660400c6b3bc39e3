#include "cli/show/render_jobs.hpp"

#include <algorithm>

#include "base/signal_name.hpp"
#include "base/text.hpp"
#include "model/json_null.hpp"

namespace thole::cli {

namespace {

using model::Job;
using model::Json;
using model::Task;
using model::TaskState;

constexpr TaskState all_states[] = {TaskState::running, TaskState::queued, TaskState::held,      TaskState::done,
                                    TaskState::failed,  TaskState::lost,   TaskState::cancelled, TaskState::skipped};

Seconds in_seconds(Millis time) { return std::chrono::duration_cast<Seconds>(time); }

// How long the job has run, or ran.
std::string run_time(const app::JobLine& line, WallTime now) {
  const Job& job = line.job;
  if (!job.started || (job.counts[TaskState::running] == 0 && !job.ended)) return "-";
  std::optional<WallTime> ended = job.ended ? job.ended : line.all_over;
  if (job.ended && line.only_task && line.only_task->ended) ended = line.only_task->ended;   // not when that was stored
  const Millis time = ended.value_or(now) - *job.started;
  return format_duration(in_seconds(std::max(time, Millis{0})));
}

std::string done_of(const Job& job) {
  return job.tasks == 1 ? "" : fmt::format("{}/{}", job.counts.ended(), job.tasks);
}

std::string gpus_shown(const app::JobLine& line) {
  const std::vector<std::string>& gpus = line.gpus.empty() ? line.last_gpus : line.gpus;
  if (!gpus.empty()) return join(gpus, ",");
  return line.job.gpus == 0 ? "-" : fmt::format("({})", line.job.gpus);
}

// "2 failed, 1 lost": what is worth a word beside the state.
std::string troubles(const Job& job) {
  std::vector<std::string> words;
  for (const TaskState state : {TaskState::failed, TaskState::lost, TaskState::cancelled, TaskState::skipped})
    if (job.counts[state] > 0 && job.tasks > 1) words.push_back(fmt::format("{} {}", job.counts[state], to_string(state)));
  return join(words, ", ");
}

// "disk full; ended 14:20, exit 4": the first words stand in a narrow table, too; `why` says where.
std::string unwritten_of(const app::JobLine& line, const app::JobList& list) {
  if (line.unwritten.empty()) return "";
  const auto& [task, end] = line.unwritten.front();
  Task ended;
  ended.exit_code = end.exit_code;
  ended.signal = end.signal;
  const std::string how = how_it_ended(ended);
  const std::string what = line.job.tasks > 1 ? fmt::format("{} more ended", line.unwritten.size())
                                              : fmt::format("ended {}{}", format_local(end.at, list.now),
                                                            how.empty() ? "" : ", " + how);
  return list.full_disk.empty() ? what + "; not written yet" : "disk full; " + what;
}

std::string note_of(const app::JobLine& line, const app::JobList& list) {
  const WallTime now = list.now;
  std::vector<std::string> words;
  if (std::string unwritten = unwritten_of(line, list); !unwritten.empty()) words.push_back(std::move(unwritten));
  if (std::string bad = troubles(line.job); !bad.empty()) words.push_back(std::move(bad));
  if (line.only_task && model::ended(line.only_task->state))
    if (std::string how = how_it_ended(*line.only_task); !how.empty()) words.push_back(std::move(how));
  const bool starts_as_it_goes = line.job.counts[TaskState::running] > 0 && line.wait && line.wait->kind == "start";
  if (line.wait && !starts_as_it_goes) words.push_back(line.wait->text);
  if (line.expected_end) words.push_back("ends about " + format_local(*line.expected_end, now));
  if (line.job.ended) words.push_back(format_local(*line.job.ended, now));
  return join(words, "; ");
}

std::string sum_of(const app::JobList& list) {
  std::vector<std::string> words;
  for (const TaskState state : all_states)
    if (list.tasks[state] > 0) words.push_back(fmt::format("{} {}", list.tasks[state], to_string(state)));
  return join(words, ", ");
}

Json counts_to_json(const model::TaskCounts& counts) {
  Json json;
  for (const TaskState state : all_states) json[to_string(state)] = counts[state];
  return json;
}

Json to_json(const app::JobLine& line) {
  const Job& job = line.job;
  Json after = Json::array();
  for (const model::Dependency& one : job.terms.after) after.push_back({{"job", one.job}, {"when", to_string(one.when)}});
  Json json = {{"job", job.id},
               {"name", model::or_null(job.name)},
               {"command", job.command},
               {"tags", job.tags},
               {"state", line.state},
               {"gpus", job.gpus},
               {"on", line.gpus.empty() ? line.last_gpus : line.gpus},
               {"tasks", job.tasks},
               {"counts", counts_to_json(job.counts)},
               {"priority", job.terms.priority},
               {"held", job.terms.held},
               {"begin", model::or_null(job.terms.begin)},
               {"at_most", model::or_null(job.terms.at_most)},
               {"time_s", model::or_null(job.terms.time)},
               {"after", after},
               {"submitted", format_iso(job.submitted)},
               {"started", model::or_null(job.started)},
               {"ended", model::or_null(job.ended)},
               {"expected_end", model::or_null(line.expected_end)},
               {"waits", line.wait ? Json{{"kind", line.wait->kind}, {"why", line.wait->text}} : Json(nullptr)}};
  json["task"] = line.only_task ? cli::to_json(*line.only_task) : Json(nullptr);
  return json;
}

}  // namespace

std::string task_name(model::JobId job, model::TaskIndex task, std::uint64_t tasks) {
  return tasks == 1 ? std::to_string(job) : fmt::format("{}.{}", job, task);
}

Ink ink_of_state(std::string_view state) {
  if (state == "running") return Ink::green;
  if (state == "failed" || state == "lost") return Ink::red;
  if (state == "held" || state == "paused" || state == "skipped") return Ink::yellow;
  if (state == "done" || state == "cancelled") return Ink::dim;
  return Ink::plain;
}

std::string how_it_ended(const Task& task) {
  if (!task.reason.empty()) return printable(task.reason, 120);
  if (task.signal) {
    const std::string_view name = signal_name(*task.signal);
    return name.empty() ? fmt::format("signal {}", *task.signal) : fmt::format("SIG{}", name);
  }
  return task.exit_code && *task.exit_code != 0 ? fmt::format("exit {}", *task.exit_code) : "";
}

std::string render_jobs(const app::JobList& list, const Screen& screen) {
  if (list.lines.empty()) return "no jobs\n";
  constexpr Column heads[] = {{"JOB", true}, {"NAME"}, {"STATE"}, {"DONE", true}, {"GPU"}, {"TIME", true}, {""}};
  constexpr Squeeze steps[] = {{1, 24}, {4, 8}, {6, 30}, {1, 16}, {6, 12}, {1, 8}};
  std::vector<Row> rows;
  for (const app::JobLine& line : list.lines) {
    const Job& job = line.job;
    Row row;
    row.color =
        model::ended(TaskState::done) && job.counts.ended() == job.tasks && line.state == "done" ? Ink::dim : Ink::plain;
    row.cells = {{std::to_string(job.id)},
                 {printable(job.name.empty() ? job.command : job.name, 200)},
                 {line.state, {}, ink_of_state(line.state)},
                 {done_of(job)},
                 {gpus_shown(line)},
                 {run_time(line, list.now)},
                 {note_of(line, list)}};
    rows.push_back(std::move(row));
  }
  std::string text = table(screen, heads, std::move(rows), steps);
  if (list.untold_ended > 0)
    text = paragraph(screen, fmt::format("{} more that ended: thole jobs --all", list.untold_ended)) + text;
  if (list.untold_queued > 0)
    text += paragraph(screen, fmt::format("… and {} more queued: thole jobs --all", list.untold_queued));
  text += paragraph(screen, fmt::format("tasks: {}", sum_of(list)));
  if (list.draining) text += paragraph(screen, "The queue is drained: nothing starts until thole drain --off");
  return text;
}

Json jobs_to_json(const app::JobList& list) {
  Json json = {{"schema", "thole/jobs/1"},
               {"taken_at", format_iso(list.now)},
               {"draining", list.draining},
               {"tasks", counts_to_json(list.tasks)}};
  json["jobs"] = Json::array();
  for (const app::JobLine& line : list.lines) json["jobs"].push_back(to_json(line));
  return json;
}

Json to_json(const Task& task) {
  return {{"task", task.index},
          {"job", task.job},
          {"state", to_string(task.state)},
          {"paused", task.paused},
          {"runs", task.runs},
          {"started", model::or_null(task.started)},
          {"ended", model::or_null(task.ended)},
          {"not_before", model::or_null(task.ready)},
          {"exit_code", model::or_null(task.exit_code)},
          {"signal", model::or_null(task.signal)},
          {"reason", model::or_null(task.reason)},
          {"gpus", task.gpus},
          {"peak_memory_mib", model::or_null(task.peak_memory_mib)},
          {"peak_gpu_memory_mib", model::or_null(task.peak_gpu_memory_mib)}};
}

std::string render_tasks(const std::vector<Task>& tasks, WallTime now, const Screen& screen) {
  if (tasks.empty()) return "no task has started\n";
  constexpr Column heads[] = {{"TASK", true}, {"STATE"},        {"RUNS", true},       {"STARTED"},
                              {"TIME", true}, {"MEMORY", true}, {"GPU MEMORY", true}, {""}};
  constexpr Squeeze steps[] = {{7, 10}};
  std::vector<Row> rows;
  for (const Task& task : tasks) {
    const std::string state = task.paused && task.state == TaskState::running ? "paused" : to_string(task.state);
    std::string time = "-";
    if (task.started && (task.ended || task.state == TaskState::running))
      time = format_duration(in_seconds(std::max(task.ended.value_or(now) - *task.started, Millis{0})));
    std::string note = how_it_ended(task);
    if (task.state == TaskState::running && task.ended) note += note.empty() ? "ended, not written" : ", not written";
    if (task.state == TaskState::queued && task.ready && *task.ready > now)
      note += (note.empty() ? "" : "; ") + ("again at " + format_local(*task.ready, now));
    Row row;
    row.cells = {{fmt::format("{}.{}", task.job, task.index)},
                 {state, {}, ink_of_state(state)},
                 {std::to_string(task.runs)},
                 {task.started ? format_local(*task.started, now) : "-"},
                 {time},
                 {task.peak_memory_mib ? format_mib(*task.peak_memory_mib) : "-"},
                 {task.peak_gpu_memory_mib ? format_mib(*task.peak_gpu_memory_mib) : "-"},
                 {note}};
    rows.push_back(std::move(row));
  }
  return table(screen, heads, std::move(rows), steps);
}

}  // namespace thole::cli
