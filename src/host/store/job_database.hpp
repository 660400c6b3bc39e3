// The open file of a queue: opened when first needed, read at will, written by one process at a time.
#pragma once

#include <optional>
#include <string>

#include "host/store/schema.hpp"
#include "host/store/sqlite.hpp"
#include "host/store/turnstile.hpp"
#include "host/store/watch.hpp"

namespace thole::host {

class JobDatabase {
 public:
  JobDatabase(std::string directory, const char* vfs, SchemaSteps steps);
  ~JobDatabase() { close(); }
  JobDatabase(const JobDatabase&) = delete;
  JobDatabase& operator=(const JobDatabase&) = delete;

  const std::string& directory() const { return directory_; }
  std::string watch_directory() const { return directory_ + "/watch"; }
  Database& database();                          // for single queries
  void close();
  // Closes it for a moment: the next to open it, in whatever process, need not read the log again.
  void rest();

  // Several queries that see one state of the queue.
  class Reading {
   public:
    explicit Reading(Database& db) : db_(db) { db_.run("BEGIN"); }
    ~Reading();
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    Database& db_;
  };

  // A change: nothing is stored unless it is committed. `durable`: on the disk when commit() returns; otherwise a loss of power
  // (not a crash) may undo it.
  class Writing {
   public:
    Writing(JobDatabase& file, bool durable);
    ~Writing();
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

    void commit(bool some_job_ended);            // and tells who watches

   private:
    JobDatabase& file_;
    std::optional<Turnstile::Pass> pass_;
    std::int64_t changes_before_ = 0;
  };

 private:
  void make_durable(bool durable);
  void hold_index();
  void shorten_log();

  std::string directory_;
  const char* vfs_;
  SchemaSteps steps_;
  std::optional<Turnstile> turnstile_;
  std::optional<Database> database_;
  Watchers watchers_;
  Fd guard_;                                     // a shared lock of the directory: what cleans /var/tmp leaves it alone
  Fd index_;                                     // a shared lock of SQLite's index of the log; see hold_index()
  std::optional<bool> durable_;                  // as the file is set now
  bool wrote_ = false;
};

}  // namespace thole::host
