#include "host/store/begun.hpp"

#include <algorithm>

namespace thole::host {

using model::JobId;
using model::TaskIndex;
using model::TaskState;

namespace {

constexpr std::int64_t tasks_at_most = 4096;     // that a mark may name at once, and a loss of power make lost

struct Mark {
  JobId job = 0;
  TaskIndex upto = 0;
  std::int64_t step = 1;                         // how far it was moved last
  WallTime at{};                                 // and when
};

std::optional<Mark> mark_of(Database& db, JobId job) {
  Rows rows = db.query("SELECT upto, step, at FROM begun WHERE job = ?", job);
  if (!rows.next()) return std::nullopt;
  return Mark{job, rows.count(0), rows.integer(1), rows.maybe_time(2).value_or(WallTime{})};
}

void write(Database& db, const Mark& mark) {
  db.run("INSERT OR REPLACE INTO begun(job, upto, step, at) VALUES(?, ?, ?, ?)", mark.job, mark.upto, mark.step, mark.at);
}

// What one sync is to serve. A sync that takes no time need not be saved.
Millis span_of(Millis sync_time) { return std::max(32 * sync_time, Millis{10}); }

}  // namespace

bool may_begin(Database& db, JobId job, TaskIndex index, WallTime now, Millis sync_time) {
  const auto mark = mark_of(db, job);
  if (!mark || index >= mark->upto) return false;
  // Tasks have become longer since: those far ahead will not begin soon. (A mark may sink without a sync.)
  if (now - mark->at > 2 * span_of(sync_time) && mark->upto > index + 1) write(db, {job, index + 1, 1, now});
  return true;
}

void move_mark(Database& db, const JobRow& row, TaskIndex index, WallTime now, Millis sync_time) {
  const auto mark = mark_of(db, row.job.id);
  std::int64_t step = 1;
  if (mark && index < mark->upto) return;
  if (mark) {
    const std::int64_t elapsed = std::max<std::int64_t>(1, (now - mark->at).count());
    step = std::clamp<std::int64_t>(mark->step * span_of(sync_time).count() / elapsed, 1,
                                    std::min(tasks_at_most, 8 * mark->step));
  }
  write(db, {row.job.id, std::min(index + static_cast<TaskIndex>(step), row.job.tasks), step, now});
}

void forget_mark(Database& db, JobId job) { db.run("DELETE FROM begun WHERE job = ?", job); }

std::vector<JobId> marked_further(Database& db, std::span<const JobId> but) {
  std::vector<JobId> jobs;
  Rows rows = db.query("SELECT begun.job FROM begun JOIN job ON job.id = begun.job WHERE begun.upto > job.next");
  while (rows.next())
    if (std::ranges::find(but, rows.count(0)) == but.end()) jobs.push_back(rows.count(0));
  return jobs;
}

void count_as_begun(Database& db, Ledger& ledger, std::uint64_t lane, std::optional<std::string_view> reason) {
  std::vector<Mark> marks;
  {
    Rows rows = db.query("SELECT job, upto, step, at FROM begun");
    while (rows.next())
      marks.push_back({rows.count(0), rows.count(1), rows.integer(2), rows.maybe_time(3).value_or(WallTime{})});
  }
  for (const Mark& mark : marks) {
    JobRow* row = ledger.find(mark.job);
    if (!row || row->rest != TaskState::queued || row->next >= mark.upto) continue;
    const std::uint64_t made =
        db.run("WITH RECURSIVE n(i) AS (SELECT ?2 UNION ALL SELECT i + 1 FROM n WHERE i < ?3) "
               "INSERT OR IGNORE INTO task(job, idx, state, runs, tries, lane, started, reason) "
               "SELECT ?1, i, 2, 1, 1, ?4, ?5, ?6 FROM n", mark.job, row->next, mark.upto - 1, lane, mark.at, reason);
    row->next = mark.upto;
    row->job.counts[TaskState::queued] -= made;
    row->job.counts[TaskState::running] += made;
    if (made > 0 && !row->job.started) row->job.started = mark.at;
  }
  db.run("DELETE FROM begun");
}

}  // namespace thole::host
