// The open file of a queue: opened when first needed, read at will, written by one process at a time.
//
// How a file is set aside while it is used. SQLite knows its log and the log's index by name, so a new file beside a living
// process would share the index of the old one with it. Therefore whoever makes the file first puts away what belonged to
// another, and whoever has it open looks before each use whether the three names are still those of what it has open. Where the
// file itself is another it goes no further: the jobs in it are others. Where only log or index are, it opens them again.
#pragma once

#include <optional>
#include <string>

#include "base/time.hpp"
#include "host/store/schema.hpp"
#include "host/store/sqlite.hpp"
#include "host/store/turnstile.hpp"
#include "host/store/watch.hpp"
#include "port/job_reader.hpp"

namespace thole::host {

// Is a change on the disk when commit() returns, or may a loss of power (not a crash) undo it?
enum class Durable { later, now };

// How long the log grows before it is brought home, which takes two syncs. Whoever opens the queue while nobody else has it
// open reads all of it: 64 pages, some eight submissions, cost `thole submit` a fraction of a millisecond, 1,000 several. A
// lane has it open all the time and finishes thousands of tasks a second.
inline constexpr int pages_of_commands = 64, pages_of_rounds = 512;

class JobDatabase {
 public:
  JobDatabase(std::string directory, const char* vfs, SchemaSteps steps, Turnstile::Said kept);
  ~JobDatabase() { close(); }
  JobDatabase(const JobDatabase&) = delete;
  JobDatabase& operator=(const JobDatabase&) = delete;

  const std::string& directory() const { return directory_; }
  std::string watch_directory() const { return directory_ + "/watch"; }
  Database& database();                          // for single queries; throws where the file is another than it was
  void close();
  bool replaced() const;                         // another lies in its place, or none
  bool was_made_newer() const { return made_newer_; }   // by us: it had been an older thole's
  bool renew();                                  // takes the one that lies there; false: there is none
  // Closes it for a moment: the next to open it, in whatever process, need not read the log again.
  void rest();

  // Several queries that see one state of the queue; within another one, that one's.
  class Reading : public port::OneMoment {
   public:
    explicit Reading(Database& db) : db_(db), within_(db.in_transaction()) {
      if (!within_) db_.run("BEGIN");
    }
    ~Reading() override;
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

   private:
    Database& db_;
    bool within_;
  };

  // A change: nothing is stored unless it is committed. `pages`: of the log, beyond which it is brought home.
  class Writing {
   public:
    Writing(JobDatabase& file, Durable durable, int pages = pages_of_commands);
    ~Writing();
    Writing(const Writing&) = delete;
    Writing& operator=(const Writing&) = delete;

    void commit(bool some_job_ended);            // and tells who watches

   private:
    JobDatabase& file_;
    std::optional<Turnstile::Pass> pass_;
    Durable durable_;
    std::int64_t changes_before_ = 0;
  };

  Millis sync_time() const { return sync_time_; }   // how long the last durable commits took

 private:
  struct Files {                                 // which they are; 0: not there
    std::uint64_t file = 0, log = 0, index = 0;
    bool operator==(const Files&) const = default;
  };
  std::string name() const { return directory_ + "/queue.db"; }
  std::string way_to_file() const { return way_ + "/queue.db"; }   // that lies in the directory which is open
  static Files files_of(const std::string& path);
  Files files_there() const;                     // throws where they cannot be seen
  bool is_as_opened() const;                     // false also where that cannot be seen
  void open();
  bool open_what_is_there();
  bool log_is_another() const;
  void look_where_it_is();
  bool forget_lost_log();
  void pass_over_lost_numbers();
  void try_to_pass_over_lost_numbers();
  void tell_of_lost_log();
  void make_file();
  void make_durable(Durable durable, int pages);
  Fd locked_index() const;
  void close_and_name_keeper();                  // throws where SQLite found the file locked: in the words of who that was
  bool take_back();                              // a commit that failed; false: it may be found all the same
  void shorten_log();

  std::string directory_;
  const char* vfs_;
  SchemaSteps steps_;
  Turnstile::Said kept_;                         // is told who keeps us from writing
  std::optional<Turnstile> turnstile_;
  std::optional<Database> database_;
  Watchers watchers_;
  Fd guard_;                                     // a shared lock of the directory: what cleans /var/tmp leaves it alone
  std::string way_;                              // into the directory that is open: its name may come to lead elsewhere
  Fd before_;                                    // that of what is opened anew
  Fd index_;                                     // a shared lock of SQLite's index of the log; see locked_index()
  Fd index_before_;                              // likewise: it is to tell what was in the log
  std::optional<Durable> durable_;               // as the file is set now
  int pages_ = 0;
  Millis sync_time_{5};                          // a guess, until there has been one
  bool wrote_ = false;
  Files files_;                                  // that are open
  std::uint32_t origin_ = 0;
  bool made_newer_ = false;
  bool lost_ = false;                            // numbers of a lost log are still to be passed over: nobody gives any before
};

}  // namespace thole::host
