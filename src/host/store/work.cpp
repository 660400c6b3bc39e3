// The runner's side: which jobs may go next, and the round of a lane between two tasks.
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/keyed_hash.hpp"
#include "base/text.hpp"
#include "host/mounting.hpp"
#include "host/store/begun.hpp"
#include "host/store/job_row.hpp"
#include "host/store/job_store.hpp"
#include "model/boot.hpp"
#include "model/lane_record.hpp"

namespace thole::host {

using model::JobId;
using model::TaskIndex;
using model::TaskState;

namespace {

constexpr int flag_cancel = 2;

// What the row of a running task says that its end depends on.
struct Run {
  unsigned runs = 0;
  bool cancel_asked = false;
  std::int64_t started = 0;
};

std::optional<Run> going_on(Database& db, const port::TaskEnd& end) {
  Rows rows = db.query("SELECT runs, flags, started FROM task WHERE job = ? AND idx = ? AND state = 2", end.job, end.index);
  if (!rows.next()) return std::nullopt;
  const Run run{static_cast<unsigned>(rows.integer(0)), (rows.integer(1) & flag_cancel) != 0, rows.integer(2)};
  if (end.runs != 0 && end.runs != run.runs) return std::nullopt;
  return run;
}

// Somebody's wish that it end goes before any further run; what was done by then is done.
TaskState state_after(const port::TaskEnd& end, const Run& run) {
  return run.cancel_asked && end.state != TaskState::done ? TaskState::cancelled : end.state;
}

void record_end(Database& db, Ledger& ledger, const port::TaskEnd& end) {
  const auto run = going_on(db, end);
  if (!run) return;
  JobRow* row = ledger.find(end.job);
  if (!row) return;
  const TaskState state = state_after(end, *run);
  --row->job.counts[TaskState::running];
  ++row->job.counts[state];
  const std::int64_t ready = state == TaskState::queued && end.ready ? end.ready->time_since_epoch().count() : 0;
  if (end.unstarted) {
    db.run("UPDATE task SET state = ?3, flags = 0, runs = runs - 1, tries = tries - 1, started = NULL, ready = ?4, log = NULL "
           "WHERE job = ?1 AND idx = ?2", end.job, end.index, static_cast<int>(state), ready);
    return;
  }
  db.run(
      "UPDATE task SET state = ?3, flags = 0, ended = ?4, ready = ?5, exit_code = ?6, signal = ?7, reason = ?8, "
      "log_length = ?9, peak_memory = ?10, peak_gpu_memory = ?11 WHERE job = ?1 AND idx = ?2",
      end.job, end.index, static_cast<int>(state), end.at, ready, end.exit_code, end.signal,
      end.reason.empty() ? std::nullopt : std::optional<std::string_view>(end.reason), end.log_length, end.peak_memory_mib,
      end.peak_gpu_memory_mib);
  row->job.busy += Millis(std::max<std::int64_t>(0, end.at.time_since_epoch().count() - run->started));
  ++row->job.ran;
}

// The next task of a job: one that is queued again, or the first that has no row.
struct Next {
  TaskIndex index = 0;
  bool has_row = false;
  unsigned runs = 0, tries = 0;
};

std::optional<Next> next_task(Database& db, JobRow& row, WallTime now) {
  {
    Rows again = db.query("SELECT idx, runs, tries FROM task WHERE state = 0 AND state <> 3 AND job = ? AND ready <= ? "
                          "ORDER BY ready, idx LIMIT 1", row.job.id, now);
    if (again.next())
      return Next{again.count(0), true, static_cast<unsigned>(again.integer(1)), static_cast<unsigned>(again.integer(2))};
  }
  if (!row.plain_left()) return std::nullopt;
  {
    Rows taken = db.query("SELECT idx FROM task WHERE job = ? AND idx >= ? ORDER BY idx", row.job.id, row.next);
    while (row.next < row.job.tasks && taken.next() && taken.count(0) == row.next) ++row.next;
  }
  if (!row.plain_left()) return std::nullopt;
  return Next{row.next++};
}

std::optional<std::int64_t> id_of_gpus(Database& db, const std::vector<std::string>& gpus) {
  if (gpus.empty()) return std::nullopt;
  const std::string text = join(gpus, "\n");
  {
    Rows rows = db.query("SELECT id FROM place WHERE gpus = ?", text);
    if (rows.next()) return rows.integer(0);
  }
  db.run("INSERT INTO place(gpus) VALUES(?)", text);
  return db.last_id();
}

port::TakenTask start(Database& db, JobRow& row, const Next& next, const port::TakeWish& wish,
                      const port::TakeWish::Bay& bay, WallTime now) {
  const auto gpus = id_of_gpus(db, wish.gpus);
  const auto log = bay.log.empty() ? std::nullopt : std::optional<std::string_view>(bay.log);
  if (next.has_row) {
    db.run(
        "UPDATE task SET state = 2, flags = 0, runs = runs + 1, tries = tries + 1, lane = ?3, lane_place = ?4, started = ?5, "
        "ended = NULL, ready = 0, exit_code = NULL, signal = NULL, reason = NULL, place = ?6, log = ?7, log_offset = ?8, "
        "log_length = NULL, peak_memory = NULL, peak_gpu_memory = NULL WHERE job = ?1 AND idx = ?2",
        row.job.id, next.index, wish.lane, bay.number, now, gpus, log, bay.log_offset);
  } else {
    db.run("INSERT INTO task(job, idx, state, runs, tries, lane, lane_place, started, place, log, log_offset) "
           "VALUES(?, ?, 2, 1, 1, ?, ?, ?, ?, ?, ?)",
           row.job.id, next.index, wish.lane, bay.number, now, gpus, log, bay.log_offset);
  }
  --row.job.counts[TaskState::queued];
  ++row.job.counts[TaskState::running];
  if (!row.job.started) row.job.started = now;
  return {row.job.id, next.index, bay.number, next.runs + 1, next.tries + 1, {}, row.job.terms.time};
}

// How a change may let tasks begin: with what is on the disk already, or with what it syncs itself.
struct Sync {
  bool ours = false;
  Millis takes{0};
};

// Nothing: one of them may begin only with a sync.
std::optional<std::vector<port::TakenTask>> take(Database& db, Ledger& ledger, const port::TakeWish& wish, WallTime now,
                                                 const Sync& sync) {
  std::vector<port::TakenTask> taken;
  JobRow* row = ledger.find(wish.job);
  if (!row || db.integer("SELECT draining FROM queue") != 0) return taken;
  for (const port::TakeWish::Bay& bay : wish.bays) {
    row->job.ready.reset();                      // by the clock of each task; see next_task
    if (model::kept_back(row->job, now)) break;
    const auto next = next_task(db, *row, now);
    if (!next) break;
    if (!sync.ours && (next->has_row || !may_begin(db, wish.job, next->index, now, sync.takes))) return std::nullopt;
    if (sync.ours && !next->has_row) move_mark(db, *row, next->index, now, sync.takes);
    taken.push_back(start(db, *row, *next, wish, bay, now));
  }
  return taken;
}

// Of which it could not be told whether it has begun under this boot. Its reason says so.
struct UntoldRun {
  JobId job = 0;
  TaskIndex index = 0;
  model::BootId boot;
};

std::vector<UntoldRun> untold_runs(Database& db) {
  std::vector<UntoldRun> runs;
  Rows rows = db.query("SELECT job, idx, reason FROM task INDEXED BY task_not_done WHERE state = 2 AND state <> 3 AND lane = ?",
                       model::lane_of_untold);
  while (rows.next()) {
    runs.push_back({rows.count(0), rows.count(1), model::boot_of_untold(rows.text(2))});
  }
  return runs;
}

void tell_untold(Database& db, Ledger& ledger, const model::Boots& boots, WallTime now) {
  for (const UntoldRun& run : untold_runs(db)) {
    const model::Boot boot = boots.of(run.boot);
    if (boot == model::Boot::untold) continue;
    db.run("UPDATE task SET lane = ?3, reason = NULL WHERE job = ?1 AND idx = ?2", run.job, run.index,
           model::lane_of_another_boot);
    if (boot == model::Boot::another) continue;
    port::TaskEnd never;
    never.job = run.job;
    never.index = run.index;
    never.state = TaskState::queued;
    never.unstarted = true;
    never.at = now;
    record_end(db, ledger, never);
  }
}

static_assert(model::longest_declared == Seconds{31'622'400}, "as the index of version 5 has it (schema.cpp)");

constexpr JobId no_more = std::numeric_limits<std::int64_t>::max();

// The first job with this priority behind `after`, of any class, that has declared nothing: nobody behind it goes before it.
JobId next_undeclared(Database& db, std::int64_t priority, JobId after, WallTime now) {
  Rows rows = db.query("SELECT id FROM job INDEXED BY job_undeclared WHERE open = 1 AND time_s IS NULL AND priority = ? "
                       "AND id > ? AND due <= ? ORDER BY id LIMIT 1", priority, after, now);
  return rows.next() ? rows.count(0) : no_more;
}

// The next of a class in the order of submission, behind `after`.
std::optional<model::Job> next_of_class(Database& db, std::int64_t of_class, std::int64_t priority, JobId after,
                                        WallTime now) {
  Rows rows = db.query("SELECT command, job_spec.tags, job.* FROM job INDEXED BY job_order "
                       "JOIN job_spec ON job_spec.id = job.id "
                       "WHERE open = 1 AND class = ? AND priority = ? AND job.id > ? AND due <= ? ORDER BY job.id LIMIT 1",
                       of_class, priority, after, now);
  return rows.next() ? std::optional(job_row(rows).job) : std::nullopt;
}

// Those of a class that go first, `most` of them and no more: of each priority, highest first, what stands between two jobs
// that have declared nothing goes in the order of plan::put_in_order.
void add_first_of_class(Database& db, std::int64_t of_class, WallTime now, unsigned most, std::vector<model::Job>& jobs) {
  const std::size_t full = jobs.size() + most;
  for (std::int64_t above = no_more; jobs.size() < full;) {
    Rows next = db.query("SELECT priority FROM job INDEXED BY job_order WHERE open = 1 AND class = ? "
                         "AND priority < ? AND due <= ? ORDER BY priority DESC LIMIT 1", of_class, above, now);
    if (!next.next()) return;
    const std::int64_t priority = above = next.integer(0);
    JobId after = 0;
    while (jobs.size() < full) {
      std::optional<model::Job> first = next_of_class(db, of_class, priority, after, now);
      if (!first) break;
      const JobId end = next_undeclared(db, priority, first->id - 1, now);
      after = end;
      if (!first->terms.time) {
        jobs.push_back(std::move(*first));
        continue;
      }
      Rows rows = db.query("SELECT command, job_spec.tags, job.* FROM job INDEXED BY job_through JOIN job_spec "
                           "ON job_spec.id = job.id WHERE open = 1 AND time_s IS NOT NULL AND class = ? AND priority = ? "
                           "AND job.id BETWEEN ? AND ? AND due <= ? "
                           "ORDER BY submitted + 1000 * min(time_s, 31622400), job.id LIMIT ?",
                           of_class, priority, first->id, end, now, full - jobs.size());
      while (rows.next()) jobs.push_back(job_row(rows).job);
      after = end == no_more ? no_more : end - 1;
    }
  }
}

// What of the others is needed to put these in order: what stands between two that have declared something.
void add_undeclared_between(Database& db, WallTime now, std::vector<model::Job>& jobs) {
  struct Known {
    int priority;
    JobId id;
    bool declared;
  };
  std::vector<Known> known;
  for (const model::Job& job : jobs) known.push_back({job.terms.priority, job.id, job.terms.time.has_value()});
  std::ranges::sort(known, {}, [](const Known& job) { return std::pair(job.priority, job.id); });
  for (std::size_t i = 1; i < known.size(); ++i) {
    const Known &left = known[i - 1], &right = known[i];
    if (left.priority != right.priority || !left.declared || !right.declared) continue;
    const JobId between = next_undeclared(db, left.priority, left.id, now);
    if (between >= right.id) continue;
    Rows rows = db.query("SELECT command, job_spec.tags, job.* FROM job JOIN job_spec ON job_spec.id = job.id WHERE job.id = ?",
                         between);
    if (rows.next()) jobs.push_back(job_row(rows).job);
  }
}

}  // namespace

std::vector<model::Job> SqliteJobStore::candidates(WallTime now, unsigned per_class) {
  Database& db = file_.database();
  const JobDatabase::Reading reading(db);
  std::vector<model::Job> jobs;
  if (db.integer("SELECT draining FROM queue") != 0) return jobs;
  for (std::int64_t last = 0;;) {
    {
      Rows next =
          db.query("SELECT class FROM job INDEXED BY job_order WHERE open = 1 AND class > ? ORDER BY class LIMIT 1", last);
      if (!next.next()) break;
      last = next.integer(0);
    }
    add_first_of_class(db, last, now, per_class, jobs);
  }
  add_undeclared_between(db, now, jobs);
  std::ranges::sort(jobs, [](const model::Job& a, const model::Job& b) {
    return a.terms.priority != b.terms.priority ? a.terms.priority > b.terms.priority : a.id < b.id;
  });
  return jobs;
}

std::optional<WallTime> SqliteJobStore::next_due(WallTime now) {
  Rows rows = file_.database().query("SELECT min(due) FROM job INDEXED BY job_due WHERE open = 1 AND due > 0 AND due > ?", now);
  return rows.next() ? rows.maybe_time(0) : std::nullopt;
}

std::vector<model::Task> SqliteJobStore::running() {
  Rows rows = file_.database().query("SELECT place.gpus, task.* FROM task INDEXED BY task_not_done "
                                     "LEFT JOIN place ON place.id = task.place WHERE state = 2 AND state <> 3");
  std::vector<model::Task> tasks;
  while (rows.next()) tasks.push_back(task_row(rows));
  return tasks;
}

port::Round SqliteJobStore::round(std::span<const port::TaskEnd> ends, const std::optional<port::TakeWish>& wish,
                                  WallTime now) {
  if (std::optional<port::Round> done = try_round(ends, wish, now, Durable::later)) return std::move(*done);
  return std::move(*try_round(ends, wish, now, Durable::now));
}

// Nothing: a task that would be taken may not begin without a sync.
std::optional<port::Round> SqliteJobStore::try_round(std::span<const port::TaskEnd> ends,
                                                     const std::optional<port::TakeWish>& wish, WallTime now, Durable durable) {
  Database& db = file_.database();
  port::Round result;
  JobDatabase::Writing writing(file_, durable, pages_of_rounds);
  Ledger ledger(db, now);
  for (const port::TaskEnd& end : ends) record_end(db, ledger, end);
  if (wish) {
    auto taken = take(db, ledger, *wish, now, {durable == Durable::now, file_.sync_time()});
    if (!taken) return std::nullopt;
    result.taken = std::move(*taken);
  }
  for (port::TakenTask& task : result.taken)
    if (const std::uint64_t per_item = ledger.find(task.job)->per_item; per_item > 0)
      task.cells = cells(task.job, task.index / per_item);
  result.ended = ledger.settle();
  for (model::JobId job : result.ended) forget_mark(db, job);
  writing.commit(!result.ended.empty());
  return result;
}

void SqliteJobStore::booted(const model::Boots& boots, WallTime now) {
  Database& db = file_.database();
  std::optional<model::BootId> marked;
  std::uint64_t then = 0;
  {
    Rows rows = db.query("SELECT boot, mounting FROM queue");
    if (rows.next() && !rows.text(0).empty()) marked = model::boot_from_text(rows.text(0)), then = rows.count(1);
  }
  const model::Boot boot = marked ? boots.of(*marked) : model::Boot::another;
  const std::uint64_t mounting = mounting_of(open_at(AT_FDCWD, file_.directory().c_str(), O_RDONLY | O_DIRECTORY));
  const bool is_another_mounting = mounting != 0 && mounting != then;
  if (boot == model::Boot::this_one && *marked == boots.now() && !is_another_mounting && untold_runs(db).empty()) return;
  JobDatabase::Writing writing(file_, Durable::now, pages_of_rounds);
  Ledger ledger(db, now);
  tell_untold(db, ledger, boots, now);
  if (boot == model::Boot::another || (is_another_mounting && then != 0))
    count_as_begun(db, ledger, model::lane_of_another_boot, std::nullopt);
  if (boot == model::Boot::untold)
    count_as_begun(db, ledger, model::lane_of_untold, model::reason_of_untold(*marked));
  if (boot != model::Boot::this_one || boots.now().kernels_own)
    db.run("UPDATE queue SET boot = ?", std::string_view(model::to_text(boots.now())));
  if (is_another_mounting) db.run("UPDATE queue SET mounting = ?", mounting);
  ledger.settle();
  writing.commit(false);
}

// What has begun has rows, and they are on the disk with this, too: it is one log.
void SqliteJobStore::go_no_further(std::span<const JobId> but) {
  Database& db = file_.database();
  if (marked_further(db, but).empty()) return;
  JobDatabase::Writing writing(file_, Durable::now, pages_of_rounds);
  for (const JobId job : marked_further(db, but)) forget_mark(db, job);
  writing.commit(false);
}

void SqliteJobStore::rest() { file_.rest(); }

// Of what is in the file, and stands in lanes' records: the same after a boot, on another disk, for another version of thole.
std::uint32_t SqliteJobStore::origin() { return static_cast<std::uint32_t>(keyed_hash(secret(), "origin")) | 1; }

HashKey SqliteJobStore::secret() {
  Rows rows = file_.database().query("SELECT secret FROM queue");
  HashKey key;
  if (!rows.next() || rows.blob(0).size() != sizeof key)
    throw Error(ErrorCode::unavailable, "the queue's file has lost the key of its tasks' marks");
  std::memcpy(&key, rows.blob(0).data(), sizeof key);
  return key;
}

}  // namespace thole::host
