#include "host/store/job_row.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace thole::host {

using model::TaskState;

namespace {

// As the tables have them; a later version of the schema adds columns behind.
enum JobColumn {
  job_command,
  job_tags,
  job_id,
  job_name,
  job_request_class,
  job_gpus,
  job_priority,
  job_held,
  job_begin,
  job_at_most,
  job_time_s,
  job_unmet,
  job_tasks,
  job_per_item,
  job_next,
  job_rest,
  job_first_count,
  job_ready = job_first_count + static_cast<int>(model::task_states),
  job_submitted,
  job_started,
  job_ended,
  job_busy_ms,
  job_ran,
  job_open,
  job_due
};
enum TaskColumn {
  task_gpus, task_job, task_idx, task_state, task_flags, task_runs, task_tries, task_lane, task_bay, task_started,
  task_ended, task_ready, task_exit_code, task_signal, task_reason, task_place, task_log, task_log_offset, task_log_length,
  task_peak_memory, task_peak_gpu_memory
};

std::vector<std::string> lines(std::string_view text) {
  std::vector<std::string> all;
  for (std::string_view line : split_lines(text)) all.emplace_back(line);
  return all;
}

template <class T>
std::optional<T> as(const std::optional<std::int64_t>& number) {
  return number ? std::optional<T>(static_cast<T>(*number)) : std::nullopt;
}

}  // namespace

JobRow job_row(const Rows& rows) {
  JobRow row;
  model::Job& job = row.job;
  job.command = rows.text(job_command);
  job.tags = lines(rows.text(job_tags));
  job.id = rows.count(job_id);
  job.name = rows.text(job_name);
  job.request_class = rows.count(job_request_class);
  job.gpus = static_cast<unsigned>(rows.integer(job_gpus));
  job.terms.priority = static_cast<int>(rows.integer(job_priority));
  job.terms.held = rows.integer(job_held) != 0;
  job.terms.begin = rows.maybe_time(job_begin);
  job.terms.at_most = as<std::uint64_t>(rows.maybe(job_at_most));
  job.terms.time = as<Seconds>(rows.maybe(job_time_s));
  job.unmet = rows.count(job_unmet);
  job.tasks = rows.count(job_tasks);
  row.per_item = rows.count(job_per_item);
  row.next = rows.count(job_next);
  row.rest = static_cast<TaskState>(rows.integer(job_rest));
  for (std::size_t i = 0; i < model::task_states; ++i)
    job.counts[static_cast<TaskState>(i)] = rows.count(job_first_count + static_cast<int>(i));
  job.ready = rows.maybe_time(job_ready);
  job.submitted = WallTime(Millis(rows.integer(job_submitted)));
  job.started = rows.maybe_time(job_started);
  job.ended = rows.maybe_time(job_ended);
  job.busy = Millis(rows.integer(job_busy_ms));
  job.ran = rows.count(job_ran);
  row.open = rows.integer(job_open) != 0;
  row.due = rows.integer(job_due);
  return row;
}

model::Task task_row(const Rows& rows) {
  model::Task task;
  task.gpus = lines(rows.text(task_gpus));
  task.job = rows.count(task_job);
  task.index = rows.count(task_idx);
  task.state = static_cast<TaskState>(rows.integer(task_state));
  task.paused = (rows.integer(task_flags) & 1) != 0;
  task.cancel_asked = (rows.integer(task_flags) & 2) != 0;
  task.given_up = (rows.integer(task_flags) & 4) != 0;
  task.runs = static_cast<unsigned>(rows.integer(task_runs));
  task.tries = static_cast<unsigned>(rows.integer(task_tries));
  task.lane = rows.count(task_lane);
  task.bay = static_cast<unsigned>(rows.integer(task_bay));
  task.started = rows.maybe_time(task_started);
  task.ended = rows.maybe_time(task_ended);
  if (const std::int64_t when = rows.integer(task_ready); when > 0) task.ready = WallTime(Millis(when));
  task.exit_code = as<int>(rows.maybe(task_exit_code));
  task.signal = as<int>(rows.maybe(task_signal));
  task.reason = rows.text(task_reason);
  task.log = rows.text(task_log);
  task.log_offset = rows.count(task_log_offset);
  task.log_length = as<std::uint64_t>(rows.maybe(task_log_length));
  task.peak_memory_mib = as<std::uint64_t>(rows.maybe(task_peak_memory));
  task.peak_gpu_memory_mib = as<std::uint64_t>(rows.maybe(task_peak_gpu_memory));
  return task;
}

bool is_met(model::After condition, const model::TaskCounts& counts) {
  const bool all_done = counts[TaskState::done] == counts.total();
  return condition == model::After::any || all_done == (condition == model::After::ok);
}

JobRow* Ledger::find(model::JobId job) {
  if (const auto known = entries_.find(job); known != entries_.end()) return &known->second.now;
  Rows rows = db_.query("SELECT NULL, NULL, job.* FROM job WHERE id = ?", job);
  if (!rows.next()) return nullptr;
  return &add(job_row(rows));
}

JobRow& Ledger::add(const JobRow& inserted) {
  to_settle_.push_back(inserted.job.id);
  return entries_.emplace(inserted.job.id, Entry{inserted, inserted}).first->second.now;
}

std::uint64_t Ledger::plain(const JobRow& row) {
  Rows rows = db_.query("SELECT count(*) FROM task WHERE job = ? AND idx >= ?", row.job.id, row.next);
  rows.next();
  return row.job.tasks - row.next - rows.count(0);
}

void Ledger::skip(JobRow& row) {
  model::TaskCounts& counts = row.job.counts;
  db_.run("UPDATE task SET state = 7, ended = ?2, ready = 0 WHERE state IN (0, 1) AND state <> 3 AND job = ?1", row.job.id,
          now_);
  if (row.rest == TaskState::queued) row.rest = TaskState::skipped;
  counts[TaskState::skipped] += counts[TaskState::queued] + counts[TaskState::held];
  counts[TaskState::queued] = counts[TaskState::held] = 0;
}

std::vector<model::JobId> Ledger::settle() {
  // Rows found while this runs (dependents) are settled by it too.
  for (std::size_t i = 0; i < to_settle_.size(); ++i) end_or_reopen(to_settle_[i], entries_.at(to_settle_[i]).now);
  for (auto& [id, entry] : entries_) write(entry, entry.now);
  return std::move(ended_);
}

void Ledger::end_or_reopen(model::JobId id, JobRow& row) {
  model::Job& job = row.job;
  if (job.counts.ended() < job.tasks) {
    job.ended.reset();
  } else if (!job.ended) {
    job.ended = now_;
    ended_.push_back(id);
    decide_dependents(job);
  }
}

void Ledger::decide_dependents(const model::Job& done) {
  std::vector<std::pair<model::JobId, model::After>> waiting;
  {
    Rows rows = db_.query("SELECT job, condition FROM dependency WHERE on_job = ? AND met = 0", done.id);
    while (rows.next()) waiting.emplace_back(rows.count(0), static_cast<model::After>(rows.integer(1)));
  }
  for (const auto& [dependent, condition] : waiting) {
    const bool met = is_met(condition, done.counts);
    db_.run("UPDATE dependency SET met = ?4 WHERE job = ?1 AND on_job = ?2 AND condition = ?3", dependent, done.id,
            static_cast<int>(condition), met ? 1 : 2);
    JobRow* row = find(dependent);
    if (!row) continue;
    if (row->job.unmet > 0) --row->job.unmet;
    if (met) continue;
    skip(*row);
    to_settle_.push_back(dependent);             // it may have been settled already
  }
}

void decide_open(JobRow& row) {
  const model::Job& job = row.job;
  const model::JobTerms& terms = job.terms;
  row.due = 0;
  if (terms.begin) row.due = terms.begin->time_since_epoch().count();
  if (job.ready) row.due = std::max<std::int64_t>(row.due, job.ready->time_since_epoch().count());
  row.open = job.counts[TaskState::queued] > 0 && !terms.held && job.unmet == 0 &&
             (!terms.at_most || job.counts[TaskState::running] < *terms.at_most);
}

void Ledger::write(const Entry& entry, JobRow& row) {
  model::Job& job = row.job;
  job.ready.reset();
  if (job.counts[TaskState::queued] > 0 && !row.plain_left()) {
    Rows first = db_.query("SELECT ready FROM task WHERE state = 0 AND state <> 3 AND job = ? ORDER BY ready LIMIT 1", job.id);
    if (first.next() && first.integer(0) > 0) job.ready = WallTime(Millis(first.integer(0)));
  }
  decide_open(row);
  if (row == entry.before) return;
  const model::JobTerms& terms = job.terms;
  const model::TaskCounts& n = job.counts;
  db_.run(
      "UPDATE job SET held = ?, begin = ?, at_most = ?, time_s = ?, unmet = ?, next = ?, rest = ?, queued = ?, held_tasks = ?, "
      "running = ?, done = ?, failed = ?, lost = ?, cancelled = ?, skipped = ?, ready = ?, started = ?, busy_ms = ?, ran = ? "
      "WHERE id = ?",
      terms.held, terms.begin, terms.at_most, terms.time ? std::optional(terms.time->count()) : std::nullopt, job.unmet,
      row.next, static_cast<int>(row.rest), n[TaskState::queued], n[TaskState::held], n[TaskState::running], n[TaskState::done],
      n[TaskState::failed], n[TaskState::lost], n[TaskState::cancelled], n[TaskState::skipped], job.ready, job.started,
      job.busy.count(), job.ran, job.id);
  const JobRow& before = entry.before;
  if (row.open == before.open && row.due == before.due && job.ended == before.job.ended &&
      terms.priority == before.job.terms.priority)
    return;
  db_.run("UPDATE job SET priority = ?, open = ?, due = ?, ended = ? WHERE id = ?", terms.priority, row.open, row.due,
          job.ended, job.id);
}

}  // namespace thole::host
