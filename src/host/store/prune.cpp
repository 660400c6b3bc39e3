// Forgetting: jobs that ended long ago, a bounded number of tasks at a time, so that nobody waits at the turnstile for it.
#include <algorithm>

#include "base/text.hpp"
#include "host/store/begun.hpp"
#include "host/store/job_store.hpp"

namespace thole::host {

using model::JobId;

namespace {

struct Doomed {
  JobId job = 0;
  std::uint64_t tasks = 0;
};

// Ended jobs from the longest ended on; not those that a job which has not ended waits for.
std::vector<Doomed> doomed(Database& db, const port::Keep& keep, WallTime now) {
  std::uint64_t too_many = 0;
  if (keep.jobs) {
    const auto ended =
        static_cast<std::uint64_t>(db.integer("SELECT count(*) FROM job INDEXED BY job_ended WHERE ended IS NOT NULL"));
    too_many = ended > *keep.jobs ? ended - *keep.jobs : 0;
  }
  Rows rows = db.query("SELECT id, tasks, ended FROM job INDEXED BY job_ended WHERE ended IS NOT NULL AND NOT EXISTS "
                       "(SELECT 1 FROM dependency JOIN job AS later ON later.id = dependency.job "
                       "WHERE on_job = job.id AND later.ended IS NULL) ORDER BY ended, id");
  std::vector<Doomed> jobs;
  for (std::uint64_t tasks = 0; tasks < keep.at_once && rows.next();) {
    const bool old = keep.ended_for && now - *rows.maybe_time(2) > *keep.ended_for;
    if (!old && jobs.size() >= too_many) break;
    jobs.push_back({rows.count(0), rows.count(1)});
    tasks += jobs.back().tasks;
  }
  return jobs;
}

void forget(Database& db, JobId job) {
  std::int64_t environment = 0;
  std::string tags;
  {
    Rows rows = db.query("SELECT environment, tags FROM job_spec WHERE id = ?", job);
    if (rows.next()) environment = rows.integer(0), tags = rows.text(1);
  }
  for (std::string_view tag : split_lines(tags)) db.run("DELETE FROM job_tag WHERE tag = ? AND job = ?", tag, job);
  db.run("DELETE FROM job WHERE id = ?", job);
  db.run("DELETE FROM job_spec WHERE id = ?", job);
  db.run("DELETE FROM item_chunk WHERE job = ?", job);
  db.run("DELETE FROM dependency WHERE job = ?", job);
  forget_mark(db, job);
  db.run("DELETE FROM environment WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM job_spec WHERE environment = ?1)", environment);
}

}  // namespace

std::vector<JobId> SqliteJobStore::prune(const port::Keep& keep, WallTime now) {
  Database& db = file_.database();
  std::vector<JobId> forgotten;
  {
    JobDatabase::Writing writing(file_, Durable::later, pages_of_rounds);
    std::uint64_t left = keep.at_once;
    for (const Doomed& doomed : doomed(db, keep, now)) {
      // A large job goes piece by piece; its own row last.
      const std::uint64_t deleted =
          db.run("DELETE FROM task WHERE job = ?1 AND idx < (SELECT coalesce((SELECT idx FROM task WHERE job = ?1 ORDER BY idx "
                 "LIMIT 1 OFFSET ?2), 9223372036854775807))", doomed.job, left);
      left -= std::min(left, deleted);
      Rows rest = db.query("SELECT 1 FROM task WHERE job = ? LIMIT 1", doomed.job);
      if (rest.next()) break;
      forget(db, doomed.job);
      forgotten.push_back(doomed.job);
    }
    writing.commit(false);
  }
  // The room goes back to the file system, as much at a time as was just made.
  JobDatabase::Writing writing(file_, Durable::later, pages_of_rounds);
  db.execute("PRAGMA incremental_vacuum(1000)");
  writing.commit(false);
  return forgotten;
}

}  // namespace thole::host
