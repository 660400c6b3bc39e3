// How the tables work.
//
// A job has one short row that changes with every task (`job`) and one long row that never changes (`job_spec`). A task has a
// row only once it has left the plain queued state: the tasks from `job.next` on that have no row are all in state `job.rest`.
// So a million tasks are submitted and cancelled by changing one row. Counters per state stand in the job's row, so nothing is
// ever counted.
//
// Which jobs may go is read from an index that holds only jobs that nothing but time holds back (`open`), in the order in which
// they go; `due` is the time before which they may not. The two, like every indexed column, are written only when they change:
// a task's end and the next one's start touch the task's row, the job's row and one small index.
//
// States are the numbers of model::TaskState: 0 queued, 1 held, 2 running, 3 done, 4 failed, 5 lost, 6 cancelled, 7 skipped.
// Times are milliseconds since 1970.
#include "host/store/schema.hpp"

#include <memory>
#include <new>

#include "base/error.hpp"
#include "base/open_directory.hpp"
#include "base/text.hpp"
#include "port/job_work.hpp"

namespace thole::host {

namespace {

constexpr std::int64_t application = 0x74686f6c;   // "thol": PRAGMA application_id of a queue's file

constexpr const char* version_1 = R"(
CREATE TABLE job(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT,                              -- null: none
  class INTEGER NOT NULL, gpus INTEGER NOT NULL,
  priority INTEGER NOT NULL, held INTEGER NOT NULL, begin INTEGER, at_most INTEGER, time_s INTEGER,
  unmet INTEGER NOT NULL,
  tasks INTEGER NOT NULL, per_item INTEGER NOT NULL,   -- tasks for each row of items; 0: no items
  next INTEGER NOT NULL DEFAULT 0, rest INTEGER NOT NULL DEFAULT 0,
  queued INTEGER NOT NULL, held_tasks INTEGER NOT NULL DEFAULT 0, running INTEGER NOT NULL DEFAULT 0,
  done INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0, skipped INTEGER NOT NULL DEFAULT 0,
  ready INTEGER,                          -- null: some queued task waits for no pause
  submitted INTEGER NOT NULL, started INTEGER, ended INTEGER,
  busy_ms INTEGER NOT NULL DEFAULT 0, ran INTEGER NOT NULL DEFAULT 0,
  open INTEGER NOT NULL DEFAULT 0, due INTEGER NOT NULL DEFAULT 0);
CREATE INDEX job_order ON job(class, priority DESC, id, due) WHERE open = 1;
CREATE INDEX job_due ON job(due) WHERE open = 1 AND due > 0;
CREATE INDEX job_name ON job(name) WHERE name IS NOT NULL AND ended IS NULL;
CREATE INDEX job_unended ON job(id) WHERE ended IS NULL;
CREATE INDEX job_ended ON job(ended) WHERE ended IS NOT NULL;

CREATE TABLE job_spec(id INTEGER PRIMARY KEY, command TEXT NOT NULL, tags TEXT NOT NULL, environment INTEGER NOT NULL,
                      columns INTEGER NOT NULL, spec BLOB NOT NULL);
CREATE INDEX job_environment ON job_spec(environment);
CREATE TABLE job_tag(tag TEXT NOT NULL, job INTEGER NOT NULL, PRIMARY KEY(tag, job)) WITHOUT ROWID;
CREATE TABLE item_chunk(job INTEGER NOT NULL, chunk INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY(job, chunk));
CREATE TABLE dependency(job INTEGER NOT NULL, on_job INTEGER NOT NULL, condition INTEGER NOT NULL,
                        met INTEGER NOT NULL,   -- 0: not yet, 1: met, 2: can no longer be
                        PRIMARY KEY(job, on_job, condition)) WITHOUT ROWID;
CREATE INDEX dependency_on ON dependency(on_job, job);

-- What many rows share, kept once.
CREATE TABLE request_class(id INTEGER PRIMARY KEY, request TEXT NOT NULL UNIQUE);
CREATE TABLE environment(id INTEGER PRIMARY KEY, hash INTEGER NOT NULL, content BLOB NOT NULL);
CREATE INDEX environment_hash ON environment(hash);
CREATE TABLE place(id INTEGER PRIMARY KEY, gpus TEXT NOT NULL UNIQUE);

CREATE TABLE task(
  job INTEGER NOT NULL, idx INTEGER NOT NULL,
  state INTEGER NOT NULL, flags INTEGER NOT NULL DEFAULT 0,      -- 1: paused, 2: asked to end, 4: given up
  runs INTEGER NOT NULL DEFAULT 0, tries INTEGER NOT NULL DEFAULT 0, lane INTEGER NOT NULL DEFAULT 0,
  lane_place INTEGER NOT NULL DEFAULT 0,
  started INTEGER, ended INTEGER,
  ready INTEGER NOT NULL DEFAULT 0,       -- not 0 only while queued
  exit_code INTEGER, signal INTEGER, reason TEXT, place INTEGER, log TEXT, log_offset INTEGER, log_length INTEGER,
  peak_memory INTEGER, peak_gpu_memory INTEGER,
  PRIMARY KEY(job, idx)) WITHOUT ROWID;
CREATE INDEX task_not_done ON task(state, job, ready, idx) WHERE state <> 3;

CREATE TABLE queue(draining INTEGER NOT NULL);
INSERT INTO queue VALUES(0);
)";

// See begun.hpp. `boot`: the kernel under which the marks were made.
constexpr const char* version_2 = R"(
CREATE TABLE begun(job INTEGER PRIMARY KEY, upto INTEGER NOT NULL, step INTEGER NOT NULL, at INTEGER NOT NULL);
ALTER TABLE queue ADD COLUMN boot TEXT;
)";

// The key of the marks of this queue's tasks (app/queue/ports.hpp).
constexpr const char* version_3 = R"(
ALTER TABLE queue ADD COLUMN secret BLOB;
UPDATE queue SET secret = randomblob(16);
)";

// Under which mounting of its disk the marks were made (host/mounting.hpp). 0: not known.
constexpr const char* version_4 = R"(
ALTER TABLE queue ADD COLUMN mounting INTEGER NOT NULL DEFAULT 0;
)";

// Of jobs of equal priority the declared ones between two that are not go in the order in which they would be through, had
// each begun when it was submitted (work.cpp). 31622400 s: model::longest_declared.
constexpr const char* version_5 = R"(
CREATE INDEX job_undeclared ON job(priority, id, due) WHERE open = 1 AND time_s IS NULL;
CREATE INDEX job_through ON job(class, priority, submitted + 1000 * min(time_s, 31622400), id, due)
  WHERE open = 1 AND time_s IS NOT NULL;
)";

constexpr const char* steps[] = {version_1, version_2, version_3, version_4, version_5};

}  // namespace

SchemaSteps schema_steps() { return steps; }

bool schema_is_current(Database& db, SchemaSteps known) {
  const std::int64_t version = db.integer("PRAGMA user_version");
  const std::int64_t kind = db.integer("PRAGMA application_id");
  const auto newest = static_cast<std::int64_t>(known.size());
  const auto name = [&] { return shown_path(sqlite3_db_filename(db.handle(), nullptr)); };
  if (version != 0 && kind == application && version > newest)
    throw port::NewerFile(Error(ErrorCode::unavailable, fmt::format("the queue's file is of a newer thole (version {}; this "
                                                                    "one knows {})", version, newest))
                              .about(name()).hint("use the newer thole"));
  if (kind != application && (version != 0 || db.integer("SELECT count(*) FROM sqlite_schema") != 0))
    throw Error(ErrorCode::unavailable, "this is no queue of thole").about(name()).hint("name another directory: --queue-dir");
  return version == newest;
}

void bring_up_to_date(Database& db, SchemaSteps known) {
  if (schema_is_current(db, known)) return;   // another process was here first
  auto version = static_cast<std::size_t>(db.integer("PRAGMA user_version"));
  db.execute("PRAGMA synchronous = EXTRA");
  db.execute("BEGIN IMMEDIATE");
  try {
    for (; version < known.size(); ++version) db.execute(known[version]);
    db.execute(fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {}", application, version).c_str());
    db.execute("COMMIT");
  } catch (...) {
    if (db.in_transaction()) db.execute("ROLLBACK");
    throw;
  }
}

std::string new_queue(SchemaSteps steps, std::uint64_t last_number) {
  Database db(":memory:", nullptr);
  db.execute("PRAGMA auto_vacuum = INCREMENTAL");
  bring_up_to_date(db, steps);
  if (last_number > 0) db.run("INSERT INTO sqlite_sequence(name, seq) VALUES('job', ?)", last_number);
  sqlite3_int64 size = 0;
  const std::unique_ptr<unsigned char, void (*)(void*)> image(sqlite3_serialize(db.handle(), "main", &size, 0), sqlite3_free);
  if (!image) throw std::bad_alloc();
  std::string bytes(reinterpret_cast<const char*>(image.get()), static_cast<std::size_t>(size));
  // The versions for writing and for reading: 2 is "with a log" (SQLite's "Database File Format", 1.3.3).
  bytes.at(18) = bytes.at(19) = 2;
  return bytes;
}

}  // namespace thole::host
