// A job's row as it changes: values read, changed in memory and written back; and the ledger of the rows that one change
// touches.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "host/store/sqlite.hpp"
#include "model/job.hpp"

namespace thole::host {

struct JobRow {
  model::Job job;                                // without its dependencies
  std::uint64_t per_item = 0;                    // tasks for each row of items
  model::TaskIndex next = 0;                     // tasks from here on that have no row
  model::TaskState rest = model::TaskState::queued;   // are in this state
  bool open = false;                             // nothing but time holds it back
  std::int64_t due = 0;                          // milliseconds since 1970 before which it may not go

  bool operator==(const JobRow&) const = default;
  bool plain_left() const { return next < job.tasks && rest == model::TaskState::queued; }
};

// Reads what "SELECT command, tags, job.*" gives (either of the first two may be null).
JobRow job_row(const Rows& rows);

// `open` and `due`, as they follow from the rest of the row.
void decide_open(JobRow& row);

// What "SELECT place.gpus, task.*" gives.
model::Task task_row(const Rows& rows);

// The rows of one change. settle() works out what follows from it (jobs that have ended, dependents that may go or never will)
// and writes everything back.
class Ledger {
 public:
  Ledger(Database& db, WallTime now) : db_(db), now_(now) {}

  JobRow* find(model::JobId job);                // nullptr: there is none
  JobRow& add(const JobRow& inserted);           // one that stands in the file as it is given here
  std::uint64_t plain(const JobRow& row);        // how many tasks have no row
  void skip(JobRow& row);                        // whatever is not running or ended will not be run
  std::vector<model::JobId> settle();            // the jobs that have ended with this

 private:
  struct Entry {
    JobRow before, now;
  };
  void end_or_reopen(model::JobId id, JobRow& row);
  void decide_dependents(const model::Job& ended);
  void write(const Entry& entry, JobRow& row);

  Database& db_;
  WallTime now_;
  std::map<model::JobId, Entry> entries_;
  std::vector<model::JobId> to_settle_, ended_;
};

// Makes a job wait for another; skips it where that one has ended in another way. Throws Error(usage) where there is none.
void add_dependency(Database& db, Ledger& ledger, JobRow& row, const model::Dependency& on);

// Whether a dependency on a job that has ended is met.
bool is_met(model::After condition, const model::TaskCounts& counts);

}  // namespace thole::host
