// The durable queue in an SQLite file: its reading, its desk and its work over one open file.
#pragma once

#include <memory>
#include <string>

#include "host/store/job_database.hpp"
#include "port/job_store.hpp"

namespace thole::host {

struct JobStoreOptions {
  std::string directory;                         // of the queue; see host/store/queue_dir.hpp
  const char* vfs = nullptr;                     // tests: another file system for SQLite; else log_vfs()
  SchemaSteps steps = schema_steps();            // tests: other versions
  Turnstile::Said kept{};                        // is told who keeps the queue from being written; from another thread
};

class SqliteJobStore : public port::JobStore {
 public:
  explicit SqliteJobStore(const JobStoreOptions& options)
      : file_(options.directory, options.vfs, options.steps, options.kept) {}

  bool was_made_newer() const { return file_.was_made_newer(); }   // by this process: it had been an older thole's

  // JobReader
  std::unique_ptr<port::OneMoment> one_moment() override;
  std::vector<model::Job> jobs(const port::JobQuery& query) override;
  model::JobSpec spec(model::JobId job) override;
  std::vector<model::Task> tasks(model::JobId job, model::TaskIndex from, std::uint64_t limit,
                                 const std::set<model::TaskState>& states) override;
  std::optional<model::Task> task(model::JobId job, model::TaskIndex index) override;
  std::vector<std::string> cells(model::JobId job, std::uint64_t item) override;
  bool draining() override;
  std::unique_ptr<port::JobWatch> watch(port::Changes what) override;

  // JobDesk
  std::vector<port::Submitted> submit(std::span<const port::Submission> jobs, WallTime now) override;
  std::vector<port::Altered> alter(std::span<const port::Selection> which, port::Verb verb, WallTime now) override;
  void edit(std::span<const model::JobId> jobs, const port::TermsChange& change, WallTime now) override;
  void drain(bool on) override;
  std::vector<model::JobId> prune(const port::Keep& keep, WallTime now) override;

  // JobWork
  std::vector<model::Job> candidates(WallTime now, unsigned per_class) override;
  std::optional<WallTime> next_due(WallTime now) override;
  std::vector<model::Task> running() override;
  port::Round round(std::span<const port::TaskEnd> ends, const std::optional<port::TakeWish>& wish, WallTime now) override;
  void booted(const model::Boots& boots, WallTime now) override;
  void go_no_further(std::span<const model::JobId> but) override;
  void rest() override;
  std::uint32_t origin() override;
  HashKey secret() override;
  bool replaced() override { return file_.replaced(); }
  bool renew() override { return file_.renew(); }

 private:
  std::optional<port::Round> try_round(std::span<const port::TaskEnd> ends, const std::optional<port::TakeWish>& wish,
                                       WallTime now, Durable durable);

  // The chunk of items read last: a lane goes through them in order.
  struct Chunk {
    model::JobId job = 0;
    std::uint64_t number = 0;
    std::size_t columns = 0;
    std::string bytes;
  };
  JobDatabase file_;
  Chunk chunk_;
};

}  // namespace thole::host
