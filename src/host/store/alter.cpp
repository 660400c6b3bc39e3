// The desk's second half: what people change about jobs that are in the queue.
#include <algorithm>
#include <iterator>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/store/job_row.hpp"
#include "host/store/job_store.hpp"

namespace thole::host {

using model::JobId;
using model::TaskState;
using port::Altered;
using port::Verb;

namespace {

// One job, or some of its tasks, being altered.
class Alteration {
 public:
  // `alone`: no others were named with it.
  Alteration(Database& db, Ledger& ledger, JobRow& row, const port::Selection& which, bool alone, WallTime now)
      : db_(db), ledger_(ledger), row_(row), whole_(!which.tasks), alone_(alone), now_(now) {
    first_ = which.tasks ? which.tasks->first : 0;
    last_ = std::min(which.tasks ? which.tasks->second : row.job.tasks - 1, row.job.tasks - 1);
    altered_.job = row.job.id;
  }

  Altered carry_out(Verb verb) {
    if (first_ > last_) return altered_;
    switch (verb) {
      case Verb::cancel: cancel(2); break;
      case Verb::give_up: cancel(2 | 4); break;
      case Verb::hold: hold(); break;
      case Verb::resume: resume(); break;
      case Verb::pause: mark_running(1, true, 2); break;   // what is being ended is not paused any more
      case Verb::proceed: mark_running(1, false); break;
      case Verb::retry: retry(); break;
    }
    return std::move(altered_);
  }

 private:
  // Tasks that have rows, from one state to another.
  std::uint64_t move(TaskState from, TaskState to) {
    const bool is_end = model::ended(to);
    const std::uint64_t moved =
        from == TaskState::done
            ? db_.run(
                  "UPDATE task SET state = ?4, ready = 0, tries = 0, ended = NULL, exit_code = NULL, signal = NULL, "
                  "reason = NULL WHERE state = 3 AND job = ?1 AND idx BETWEEN ?2 AND ?3",
                  row_.job.id, first_, last_, static_cast<int>(to))
            : db_.run(
                  "UPDATE task INDEXED BY task_not_done SET state = ?5, ready = 0, flags = 0, "
                  "tries = iif(?6, tries, 0), ended = iif(?6, ?7, NULL), exit_code = NULL, signal = NULL, reason = NULL "
                  "WHERE state = ?4 AND state <> 3 AND job = ?1 AND idx BETWEEN ?2 AND ?3",
                  row_.job.id, first_, last_, static_cast<int>(from), static_cast<int>(to), is_end, now_);
    count(from, to, moved);
    return moved;
  }

  void count(TaskState from, TaskState to, std::uint64_t how_many) {
    row_.job.counts[from] -= how_many;
    row_.job.counts[to] += how_many;
    altered_.changed += how_many;
  }

  // Tasks without rows: all of them by one word, or each with a row from now on.
  void move_plain(TaskState from, TaskState to) {
    if (row_.rest != from || row_.next >= row_.job.tasks) return;
    if (whole_ && to != TaskState::held) {
      count(from, to, ledger_.plain(row_));
      row_.rest = to;
      return;
    }
    const auto begin = std::max(first_, row_.next);
    if (begin > last_) return;
    const std::uint64_t made =
        db_.run("WITH RECURSIVE n(i) AS (SELECT ?2 UNION ALL SELECT i + 1 FROM n WHERE i < ?3) "
                "INSERT OR IGNORE INTO task(job, idx, state, ended) SELECT ?1, i, ?4, ?5 FROM n",
                row_.job.id, begin, last_, static_cast<int>(to), model::ended(to) ? std::optional(now_) : std::nullopt);
    count(from, to, made);
  }

  void cancel(int flags) {
    move(TaskState::queued, TaskState::cancelled);
    move(TaskState::held, TaskState::cancelled);
    move_plain(TaskState::queued, TaskState::cancelled);
    mark_running(flags, true);
  }

  void hold() {
    if (whole_) {
      if (!row_.job.terms.held) altered_.changed += row_.job.counts[TaskState::queued];
      row_.job.terms.held = true;
      return;
    }
    move(TaskState::queued, TaskState::held);
    move_plain(TaskState::queued, TaskState::held);
  }

  void resume() {
    if (whole_ && row_.job.terms.held) {
      altered_.changed += row_.job.counts[TaskState::queued];
      row_.job.terms.held = false;
    } else if (row_.job.terms.held) {
      throw Error(ErrorCode::usage, fmt::format("job {} is held as a whole, not task by task", row_.job.id))
          .hint(fmt::format("thole resume {}", row_.job.id));
    }
    move(TaskState::held, TaskState::queued);
  }

  void retry() {
    const std::uint64_t skipped = row_.job.counts[TaskState::skipped];
    const bool keeps_others = row_.job.counts[TaskState::queued] > 0;
    const bool in_vain = skipped > 0 && waits_in_vain();
    for (TaskState from : {TaskState::failed, TaskState::lost, TaskState::cancelled, TaskState::skipped}) {
      if (from == TaskState::skipped && in_vain) continue;
      move(from, TaskState::queued);
      move_plain(from, TaskState::queued);
    }
    if (!whole_) move(TaskState::done, TaskState::queued);
    if (skipped > row_.job.counts[TaskState::skipped]) ask_again();
    // A hold on a job of which nothing was left to start kept nothing any more: what is wanted again is wanted to run.
    if (altered_.changed > 0 && !keeps_others) row_.job.terms.held = false;
  }

  std::vector<model::Dependency> missed() const {
    std::vector<model::Dependency> all;
    Rows rows = db_.query("SELECT on_job, condition FROM dependency WHERE job = ? AND met = 2", row_.job.id);
    while (rows.next()) all.push_back({rows.count(0), static_cast<model::After>(rows.integer(1))});
    return all;
  }

  bool has_ended(const JobRow* other) const { return !other || other->job.counts.ended() == other->job.tasks; }

  // A skipped job runs again only if what it waits for may still come true. Among others it stays as it is, and keeps them from
  // nothing.
  bool waits_in_vain() {
    for (const model::Dependency& on : missed()) {
      const JobRow* other = ledger_.find(on.job);
      if (!has_ended(other) || (other && is_met(on.when, other->job.counts))) continue;
      const std::string why =
          fmt::format("waits for job {} ({}), which has ended otherwise", on.job, model::to_string(on.when));
      const std::string edit = fmt::format("thole edit {} --after none", row_.job.id);
      const bool may_succeed = other && on.when == model::After::ok;
      if (alone_)
        throw Error(ErrorCode::usage, fmt::format("job {} {}", row_.job.id, why))
            .hint(may_succeed ? fmt::format("thole retry {} first, or {}", on.job, edit) : edit);
      altered_.stays = fmt::format("{}: {}", why, edit);
      return true;
    }
    return false;
  }

  void ask_again() {
    for (const model::Dependency& on : missed()) {
      const bool ended = has_ended(ledger_.find(on.job));
      if (!ended) ++row_.job.unmet;
      db_.run("UPDATE dependency SET met = ?4 WHERE job = ?1 AND on_job = ?2 AND condition = ?3", row_.job.id, on.job,
              static_cast<int>(on.when), ended ? 1 : 0);
    }
  }

  // On: with several of them, those that lack any; none that has one of `unless`.
  void mark_running(int flag, bool on, int unless = 0) {
    std::uint64_t changed;
    if (on) {
      changed = db_.run(
          "UPDATE task SET flags = flags | ?4 WHERE state = 2 AND state <> 3 AND job = ?1 AND idx BETWEEN ?2 AND ?3 "
          "AND flags & ?4 <> ?4 AND flags & ?5 = 0",
          row_.job.id, first_, last_, flag, unless);
    } else {
      changed = db_.run(
          "UPDATE task SET flags = flags & ~?4 WHERE state = 2 AND state <> 3 AND job = ?1 AND idx BETWEEN ?2 AND ?3 "
          "AND flags & ?4 <> 0",
          row_.job.id, first_, last_, flag);
    }
    altered_.changed += changed;
    Rows rows = db_.query(
        "SELECT place.gpus, task.* FROM task INDEXED BY task_not_done LEFT JOIN place ON place.id = task.place "
        "WHERE state = 2 AND state <> 3 AND job = ? AND idx BETWEEN ? AND ?",
        row_.job.id, first_, last_);
    while (rows.next()) altered_.running.push_back(task_row(rows));
  }

  Database& db_;
  Ledger& ledger_;
  JobRow& row_;
  bool whole_, alone_;
  WallTime now_;
  model::TaskIndex first_ = 0, last_ = 0;
  Altered altered_;
};

// Those there are; for all but `retry`, those that have not ended.
std::vector<JobId> existing(Database& db, const port::Selection& which, Verb verb) {
  Rows rows = verb == Verb::retry
                  ? db.query("SELECT id FROM job WHERE id BETWEEN ? AND ?", which.first, which.tasks ? which.first : which.last)
                  : db.query("SELECT id FROM job WHERE id BETWEEN ? AND ? AND ended IS NULL", which.first,
                             which.tasks ? which.first : which.last);
  std::vector<JobId> jobs;
  while (rows.next()) jobs.push_back(rows.count(0));
  return jobs;
}

// Of jobs that wait for their first task, and that nobody waits for, only their own rows change: all by one statement, however
// many there are.
#define UNTOUCHED                                                                                                          \
  "id BETWEEN ?1 AND ?2 AND ended IS NULL AND next = 0 AND rest = 0 AND queued = tasks "                                   \
  "AND NOT EXISTS (SELECT 1 FROM task WHERE task.job = job.id) "                                                           \
  "AND NOT EXISTS (SELECT 1 FROM dependency WHERE on_job = job.id AND met = 0)"

std::vector<Altered> cancel_untouched(Database& db, const port::Selection& which, WallTime now) {
  std::vector<Altered> all;
  if (which.tasks || which.first == which.last) return all;
  {
    Rows rows = db.query("SELECT id, tasks FROM job WHERE " UNTOUCHED, which.first, which.last);
    while (rows.next()) all.push_back({rows.count(0), rows.count(1), {}});
  }
  if (!all.empty())
    db.run("UPDATE job SET rest = 6, cancelled = cancelled + queued, queued = 0, ready = NULL, open = 0, "
           "due = ifnull(begin, 0), ended = ?3 WHERE " UNTOUCHED, which.first, which.last, now);
  return all;
}

#undef UNTOUCHED

// Throws where `job` would wait for itself by way of `on`.
void refuse_cycle(Database& db, JobId job, JobId on) {
  Rows rows = db.query(
      "WITH RECURSIVE before(id) AS (SELECT ?1 UNION SELECT on_job FROM dependency JOIN before ON job = before.id) "
      "SELECT 1 FROM before WHERE id = ?2 LIMIT 1",
      on, job);
  if (rows.next())
    throw Error(ErrorCode::usage, job == on ? fmt::format("job {} cannot wait for itself", job)
                                            : fmt::format("job {} cannot wait for job {}, which waits for it", job, on))
        .hint(fmt::format("thole why {}", on));
}

void edit_one(Database& db, Ledger& ledger, JobId job, const port::TermsChange& change) {
  JobRow* row = ledger.find(job);
  if (!row) throw Error(ErrorCode::usage, fmt::format("there is no job {}", job)).hint("thole jobs --all");
  const model::TaskCounts& counts = row->job.counts;
  if (counts[TaskState::queued] + counts[TaskState::held] + counts[TaskState::skipped] == 0)
    throw Error(ErrorCode::usage, fmt::format("nothing of job {} is left to start", job))
        .hint(fmt::format("thole retry {}", job));
  model::JobTerms& terms = row->job.terms;
  if (change.priority) terms.priority = *change.priority;
  if (change.begin) terms.begin = *change.begin;
  if (change.at_most) terms.at_most = *change.at_most;
  if (change.time) terms.time = *change.time;
  if (!change.after) return;
  db.run("DELETE FROM dependency WHERE job = ?", job);
  row->job.unmet = 0;
  for (const model::Dependency& on : *change.after) {
    refuse_cycle(db, job, on.job);
    add_dependency(db, ledger, *row, on);
  }
}

}  // namespace

std::vector<Altered> SqliteJobStore::alter(std::span<const port::Selection> which, Verb verb, WallTime now) {
  Database& db = file_.database();
  JobDatabase::Writing writing(file_, Durable::now);
  Ledger ledger(db, now);
  std::vector<Altered> all;
  if (verb == Verb::cancel || verb == Verb::give_up)   // before the ledger knows any of them
    for (const port::Selection& selection : which)
      std::ranges::move(cancel_untouched(db, selection, now), std::back_inserter(all));
  const bool some_ended = !all.empty();
  const bool alone = which.size() == 1 && which.front().first == which.front().last;
  for (const port::Selection& selection : which)
    for (JobId job : existing(db, selection, verb)) {
      Altered altered = Alteration(db, ledger, *ledger.find(job), selection, alone, now).carry_out(verb);
      if (altered.changed > 0 || !altered.stays.empty() || !altered.running.empty()) all.push_back(std::move(altered));
    }
  if (some_ended) std::ranges::stable_sort(all, {}, &Altered::job);
  writing.commit(!ledger.settle().empty() || some_ended);
  return all;
}

void SqliteJobStore::edit(std::span<const JobId> jobs, const port::TermsChange& change, WallTime now) {
  Database& db = file_.database();
  JobDatabase::Writing writing(file_, Durable::now);
  Ledger ledger(db, now);
  for (const JobId job : jobs) edit_one(db, ledger, job, change);
  writing.commit(!ledger.settle().empty());
}

void SqliteJobStore::drain(bool on) {
  Database& db = file_.database();
  JobDatabase::Writing writing(file_, Durable::now);
  db.run("UPDATE queue SET draining = ?1 WHERE draining <> ?1", on);
  writing.commit(false);
}

}  // namespace thole::host
