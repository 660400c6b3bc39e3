// Looking: lists of jobs and tasks, and what is known of one of them.
#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/store/job_row.hpp"
#include "host/store/job_store.hpp"
#include "model/job_json.hpp"

namespace thole::host {

using model::JobId;
using model::TaskState;

namespace {

[[noreturn]] void no_such_job(JobId job) {
  throw Error(ErrorCode::usage, fmt::format("there is no job {}", job)).hint("thole jobs --all");
}

// The text of a query and the words that go into it. Its length does not depend on how many jobs are named.
struct Conditions {
  std::string from;                              // beside the jobs
  std::string text;
  std::vector<std::string> words;
  void add(const std::string& condition) { text += (text.empty() ? " WHERE " : " AND ") + condition; }
};

using Range = std::pair<JobId, JobId>;

// In order, none twice.
std::vector<Range> ranges_of(std::vector<port::Selection> ids) {
  std::sort(ids.begin(), ids.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Range> ranges;
  for (const port::Selection& one : ids) {
    if (one.last < one.first) continue;
    if (!ranges.empty() && one.first <= ranges.back().second + 1)
      ranges.back().second = std::max(ranges.back().second, one.last);
    else ranges.emplace_back(one.first, one.last);
  }
  return ranges;
}

std::string as_json(const std::vector<Range>& ranges) {
  std::string text;
  for (const auto& [first, last] : ranges)
    fmt::format_to(std::back_inserter(text), "{}[{},{}]", text.empty() ? "[" : ",", first, last);
  return text + "]";
}

Conditions conditions_of(const port::JobQuery& query) {
  Conditions all;
  const std::vector<Range> ranges = ranges_of(query.ids);
  if (ranges.size() == 1) {
    all.add(fmt::format("job.id BETWEEN {} AND {}", ranges[0].first, ranges[0].second));
  } else if (ranges.size() > 1) {
    all.from = "json_each(?) AS wanted CROSS JOIN ";   // in this order: each range is looked up in the jobs
    all.words.push_back(as_json(ranges));
    all.add("job.id BETWEEN json_extract(wanted.value, '$[0]') AND json_extract(wanted.value, '$[1]')");
  }
  for (const std::string& tag : query.tags) {
    all.add("EXISTS (SELECT 1 FROM job_tag WHERE tag = ? AND job = job.id)");
    all.words.push_back(tag);
  }
  if (!query.name.empty()) {
    all.add("job.name = ?");
    all.words.push_back(query.name);
  }
  if (query.unended_only) all.add("job.ended IS NULL");
  if (query.ended_since)
    all.add(fmt::format("(job.ended IS NULL OR job.ended >= {})", query.ended_since->time_since_epoch().count()));
  return all;
}

void add_dependencies(Database& db, model::Job& job) {
  Rows rows = db.query("SELECT on_job, condition FROM dependency WHERE job = ?", job.id);
  while (rows.next()) job.terms.after.push_back({rows.count(0), static_cast<model::After>(rows.integer(1))});
}

std::optional<JobRow> find_row(Database& db, JobId job) {
  Rows rows = db.query("SELECT NULL, NULL, job.* FROM job WHERE id = ?", job);
  return rows.next() ? std::optional(job_row(rows)) : std::nullopt;
}

}  // namespace

std::unique_ptr<port::OneMoment> SqliteJobStore::one_moment() {
  return std::make_unique<JobDatabase::Reading>(file_.database());
}

std::vector<model::Job> SqliteJobStore::jobs(const port::JobQuery& query) {
  Database& db = file_.database();
  const JobDatabase::Reading reading(db);
  const Conditions conditions = conditions_of(query);
  Rows rows = db.query_once("SELECT command, job_spec.tags, job.* FROM " + conditions.from +
                            "job JOIN job_spec ON job_spec.id = job.id" + conditions.text +
                            (query.newest_first ? " ORDER BY job.id DESC" : " ORDER BY job.id") +
                            fmt::format(" LIMIT {}", query.limit));
  int index = 0;
  for (const std::string& word : conditions.words) rows.bind(++index, word);
  std::vector<model::Job> jobs;
  while (rows.next()) {
    jobs.push_back(job_row(rows).job);
    add_dependencies(db, jobs.back());
  }
  return jobs;
}

model::JobSpec SqliteJobStore::spec(JobId job) {
  Database& db = file_.database();
  Rows rows = db.query("SELECT spec, content, time_s FROM job_spec JOIN job ON job.id = job_spec.id "
                       "LEFT JOIN environment ON environment.id = job_spec.environment WHERE job_spec.id = ?", job);
  if (!rows.next()) no_such_job(job);
  model::JobSpec spec = model::unpack_job_spec(rows.blob(0), fmt::format("job {} in {}/queue.db", job, file_.directory()));
  for (std::string_view rest = rows.blob(1); !rest.empty();) {
    const std::size_t end = rest.find('\0');
    spec.environment.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end, rest.size() - 1) + 1);
  }
  if (const auto time = rows.maybe(2)) spec.request.time = Seconds(*time);
  return spec;
}

std::vector<model::Task> SqliteJobStore::tasks(JobId job, model::TaskIndex from, std::uint64_t limit,
                                               const std::set<TaskState>& states) {
  Database& db = file_.database();
  const JobDatabase::Reading reading(db);
  limit = std::min(limit, ~std::uint64_t{0} >> 1);
  std::vector<model::Task> tasks;
  const auto add = [&](Rows rows) {
    while (rows.next()) tasks.push_back(task_row(rows));
  };
  if (states.empty())
    add(db.query("SELECT place.gpus, task.* FROM task LEFT JOIN place ON place.id = task.place "
                 "WHERE task.job = ? AND task.idx >= ? ORDER BY task.idx LIMIT ?", job, from, limit));
  // State by state, each in its order in the index: a few failed ones are found at once among a million.
  for (TaskState state : states) {
    if (state == TaskState::done)
      add(db.query("SELECT place.gpus, task.* FROM task LEFT JOIN place ON place.id = task.place "
                   "WHERE task.job = ? AND task.idx >= ? AND state = 3 ORDER BY task.idx LIMIT ?", job, from, limit));
    else if (state == TaskState::queued)         // with their pauses
      add(db.query("SELECT place.gpus, task.* FROM task INDEXED BY task_not_done LEFT JOIN place ON place.id = task.place "
                   "WHERE state = 0 AND state <> 3 AND job = ? AND idx >= ? ORDER BY idx LIMIT ?", job, from, limit));
    else
      add(db.query("SELECT place.gpus, task.* FROM task INDEXED BY task_not_done LEFT JOIN place ON place.id = task.place "
                   "WHERE state = ? AND state <> 3 AND job = ? AND ready = 0 AND idx >= ? ORDER BY idx LIMIT ?",
                   static_cast<int>(state), job, from, limit));
  }
  std::sort(tasks.begin(), tasks.end(), [](const model::Task& a, const model::Task& b) { return a.index < b.index; });
  if (tasks.size() > limit) tasks.resize(limit);
  return tasks;
}

std::optional<model::Task> SqliteJobStore::task(JobId job, model::TaskIndex index) {
  Database& db = file_.database();
  const JobDatabase::Reading reading(db);
  {
    Rows rows = db.query("SELECT place.gpus, task.* FROM task LEFT JOIN place ON place.id = task.place "
                         "WHERE task.job = ? AND task.idx = ?", job, index);
    if (rows.next()) return task_row(rows);
  }
  const auto row = find_row(db, job);
  if (!row || index >= row->job.tasks) return std::nullopt;
  model::Task plain;
  plain.job = job;
  plain.index = index;
  plain.state = row->rest;
  return plain;
}

std::vector<std::string> SqliteJobStore::cells(JobId job, std::uint64_t item) {
  const std::uint64_t number = item / model::Items::rows_per_chunk;
  if (chunk_.job != job || chunk_.number != number) {
    Rows rows = file_.database().query("SELECT bytes, columns FROM item_chunk JOIN job_spec ON job_spec.id = item_chunk.job "
                                       "WHERE job = ? AND chunk = ?", job, number);
    if (!rows.next()) throw Error(ErrorCode::usage, fmt::format("job {} has no item {}", job, item));
    chunk_ = {job, number, static_cast<std::size_t>(rows.count(1)), std::string(rows.blob(0))};
  }
  return model::Items::row_of(chunk_.bytes, chunk_.columns, item % model::Items::rows_per_chunk);
}

bool SqliteJobStore::draining() { return file_.database().integer("SELECT draining FROM queue") != 0; }

std::unique_ptr<port::JobWatch> SqliteJobStore::watch(port::Changes what) {
  file_.database();
  return make_watch(file_.watch_directory(), what);
}

}  // namespace thole::host
