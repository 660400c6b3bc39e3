// The desk's first half: jobs come in, whole batches in one transaction that is on the disk when it returns.
#include <functional>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "host/store/job_row.hpp"
#include "host/store/job_store.hpp"
#include "model/job_json.hpp"

namespace thole::host {

using model::JobId;
using model::TaskState;

namespace {

constexpr std::size_t most_command_columns = 200;   // what a list can show of it

std::string packed_environment(const std::vector<std::string>& environment) {
  std::string content;
  for (const std::string& variable : environment) content.append(variable).push_back('\0');
  return content;
}

// Ten thousand jobs of one shell have one environment.
std::int64_t environment_id(Database& db, const std::vector<std::string>& environment) {
  const std::string content = packed_environment(environment);
  const auto hash = static_cast<std::int64_t>(fnv1a(content));
  {
    Rows rows = db.query("SELECT id FROM environment WHERE hash = ? AND content = ?", hash, Blob{content});
    if (rows.next()) return rows.integer(0);
  }
  db.run("INSERT INTO environment(hash, content) VALUES(?, ?)", hash, Blob{content});
  return db.last_id();
}

std::int64_t class_id(Database& db, const model::JobSpec& spec) {
  const std::string request = model::request_class(spec);
  {
    Rows rows = db.query("SELECT id FROM request_class WHERE request = ?", request);
    if (rows.next()) return rows.integer(0);
  }
  db.run("INSERT INTO request_class(request) VALUES(?)", request);
  return db.last_id();
}

std::optional<std::string_view> maybe(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<std::string_view>(text);
}

void check(const port::Submission& wanted) {
  if (wanted.tasks == 0) throw Error(ErrorCode::usage, "a job without tasks");
  if (wanted.tasks > model::most_tasks)
    throw Error(ErrorCode::usage, fmt::format("{} tasks are more than one job may have ({})", wanted.tasks, model::most_tasks))
        .hint("submit it in several parts");
  if (!wanted.items.empty() && wanted.tasks % wanted.items.size() != 0)
    throw Error(ErrorCode::internal, fmt::format("{} tasks of {} items", wanted.tasks, wanted.items.size()));
}

// What will be read of it later, all but the number: it is written once and not read back.
JobRow row_of(Database& db, const port::Submission& wanted, WallTime now) {
  JobRow row;
  row.job.name = wanted.spec.name;
  row.job.request_class = static_cast<std::uint64_t>(class_id(db, wanted.spec));
  row.job.gpus = wanted.spec.request.gpus;
  row.job.terms = wanted.terms;
  row.job.terms.after.clear();                   // these are added one by one
  if (!row.job.terms.time) row.job.terms.time = wanted.spec.request.time;
  row.job.tasks = row.job.counts[TaskState::queued] = wanted.tasks;
  row.job.submitted = now;
  row.per_item = wanted.items.empty() ? 0 : wanted.tasks / wanted.items.size();
  decide_open(row);
  return row;
}

JobRow insert(Database& db, const port::Submission& wanted, WallTime now) {
  const model::JobSpec& spec = wanted.spec;
  JobRow row = row_of(db, wanted, now);
  const model::JobTerms& terms = row.job.terms;
  db.run(
      "INSERT INTO job(name, class, gpus, priority, held, begin, at_most, time_s, unmet, tasks, per_item, queued, submitted, "
      "open, due) VALUES(?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, ?, ?, ?, ?)",
      maybe(spec.name), row.job.request_class, row.job.gpus, terms.priority, terms.held, terms.begin, terms.at_most,
      terms.time ? std::optional(terms.time->count()) : std::nullopt, wanted.tasks, row.per_item, wanted.tasks, now, row.open,
      row.due);
  const auto id = row.job.id = static_cast<JobId>(db.last_id());
  const std::string packed = model::pack(spec), command = thole::command_line(spec.argv).substr(0, most_command_columns),
                    tags = join(spec.tags, "\n");
  db.run("INSERT INTO job_spec(id, command, tags, environment, columns, spec) VALUES(?, ?, ?, ?, ?, ?)", id, command, tags,
         environment_id(db, spec.environment), wanted.items.columns(), Blob{packed});
  for (const std::string& tag : spec.tags) db.run("INSERT OR IGNORE INTO job_tag(tag, job) VALUES(?, ?)", tag, id);
  std::uint64_t number = 0;
  for (const std::string& chunk : wanted.items.chunks())
    db.run("INSERT INTO item_chunk(job, chunk, bytes) VALUES(?, ?, ?)", id, number++, Blob{chunk});
  return row;
}

}  // namespace

void add_dependency(Database& db, Ledger& ledger, JobRow& row, const model::Dependency& on) {
  const JobRow* other = ledger.find(on.job);
  if (!other) throw Error(ErrorCode::usage, fmt::format("there is no job {} to wait for", on.job)).hint("thole jobs --all");
  const bool ended = other->job.counts.ended() == other->job.tasks;
  const int met = !ended ? 0 : is_met(on.when, other->job.counts) ? 1 : 2;
  const bool is_new = db.run("INSERT OR IGNORE INTO dependency(job, on_job, condition, met) VALUES(?, ?, ?, ?)", row.job.id,
                             on.job, static_cast<int>(on.when), met) == 1;
  if (is_new && met == 0) ++row.job.unmet;
  if (met == 2) ledger.skip(row);
}

std::vector<port::Submitted> SqliteJobStore::submit(std::span<const port::Submission> jobs, WallTime now) {
  Database& db = file_.database();
  JobDatabase::Writing writing(file_, Durable::now);
  Ledger ledger(db, now);
  std::vector<port::Submitted> done;
  for (const port::Submission& wanted : jobs) {
    check(wanted);
    if (wanted.if_absent && !wanted.spec.name.empty()) {
      Rows rows =
          db.query("SELECT id FROM job WHERE name = ? AND name IS NOT NULL AND ended IS NULL LIMIT 1", wanted.spec.name);
      if (rows.next()) {
        done.push_back({rows.count(0), true});
        continue;
      }
    }
    JobRow& row = ledger.add(insert(db, wanted, now));
    for (const model::Dependency& on : wanted.terms.after) add_dependency(db, ledger, row, on);
    for (const auto& [earlier, when] : wanted.after_earlier) {
      if (earlier >= done.size()) throw Error(ErrorCode::internal, "a job that waits for a later one of its batch");
      add_dependency(db, ledger, row, {done[earlier].id, when});
    }
    done.push_back({row.job.id, false});
  }
  writing.commit(!ledger.settle().empty());
  return done;
}

}  // namespace thole::host
