// What the durable queue costs: submissions one process each and in bulk, a lane's round between two tasks beside a bare commit
// of one row, lists, cancellation and the size of the file at a million tasks. Usage: bench_store [tasks [submissions [part]]]
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "host/store/job_store.hpp"
#include "table.hpp"

namespace thole::bench {
namespace {

using host::JobStoreOptions;
using host::SqliteJobStore;

WallTime now() { return std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now()); }

port::Submission job(std::uint64_t tasks) {
  port::Submission made;
  made.spec.argv = {"python", "train.py", "--lr", "{lr}", "--seed", "{seed}"};
  made.spec.directory = "/home/somebody/project";
  for (int i = 0; i < 60; ++i)
    made.spec.environment.push_back("VARIABLE_" + std::to_string(i) + "=/some/path/of/usual/length/bin");
  made.tasks = tasks;
  return made;
}

template <class F>
double timed(F&& run) {                          // in seconds
  const double start = now_us();
  run();
  return (now_us() - start) * 1e-6;
}

void row(const char* name, double value, const char* unit) { std::printf("  %-46s %12.1f %s\n", name, value, unit); }

// A directory of its own for each measurement.
std::string fresh(const std::string& folder, const std::string& name) {
  std::filesystem::remove_all(folder + "/" + name);
  std::filesystem::create_directories(folder + "/" + name);
  return folder + "/" + name;
}

std::uintmax_t bytes_of(const std::string& directory) {
  std::uintmax_t sum = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) sum += entry.file_size();
  return sum;
}

// One process each, as `thole submit` is: opens the file, submits, ends.
double submissions_per_second(const std::string& directory, unsigned rounds) {
  const double seconds = timed([&] {
    for (unsigned i = 0; i < rounds; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        SqliteJobStore store(JobStoreOptions{.directory = directory});
        const port::Submission one = job(1);
        store.submit({&one, 1}, now());
        store.rest();
        ::_exit(0);
      }
      ::waitpid(child, nullptr, 0);
    }
  });
  return rounds / seconds;
}

void queue_of(const std::string& directory, unsigned jobs) {
  SqliteJobStore store(JobStoreOptions{.directory = directory});
  const std::vector<port::Submission> many(jobs, job(1));
  store.submit(many, now());
}

void submitting(const std::string& folder, unsigned rounds) {
  const std::string empty = fresh(folder, "empty"), full = fresh(folder, "full");
  queue_of(empty, 1);
  queue_of(full, 10'000);
  for (int block = 0; block < 3; ++block) {       // interleaved: the machine is never quiet
    row("submit, a process each, empty queue", submissions_per_second(empty, rounds), "/s");
    row("submit, a process each, 10,000 queued", submissions_per_second(full, rounds), "/s");
    const double bare = timed([&] {
      for (unsigned i = 0; i < rounds; ++i) {
        const pid_t child = ::fork();
        if (child == 0) ::_exit(0);
        ::waitpid(child, nullptr, 0);
      }
    });
    row("bare fork and wait", rounds / bare, "/s");
  }
}

void lines(const std::string& folder, std::uint64_t tasks) {
  SqliteJobStore store(JobStoreOptions{.directory = fresh(folder, "lines")});
  port::Submission sweep = job(tasks);
  sweep.items = model::Items(1);
  const double packing = timed([&] {
    for (std::uint64_t i = 0; i < tasks; ++i) {
      const std::string line = "--config configs/experiment_" + std::to_string(i) + ".yaml";
      const std::string_view cell[] = {line};
      sweep.items.add(cell);
    }
  });
  const double storing = timed([&] { store.submit({&sweep, 1}, now()); });
  row("submit with a line each", static_cast<double>(tasks) / (packing + storing), "tasks/s");
}

void rounds(const std::string& folder, std::uint64_t tasks) {
  const std::string directory = fresh(folder, "rounds");
  SqliteJobStore store(JobStoreOptions{.directory = directory});
  const port::Submission array = job(tasks);
  const auto id = store.submit({&array, 1}, now()).at(0).id;
  port::TakeWish wish;
  wish.job = id;
  wish.lane = 1;
  wish.gpus = {"GPU-9f3c1f5e-0000-4000-8000-000000000001"};
  wish.bays[0].log = "1/1.log";
  std::vector<port::TaskEnd> ends;

  // Beside it: a row a commit, the least that SQLite can do.
  host::Database bare(fresh(folder, "bare") + "/bare.db", nullptr);
  bare.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER)");
  const std::uint64_t block = std::max<std::uint64_t>(tasks / 4, 1);
  std::uint64_t done = 0, rows = 0;
  double rounds_take = 0, committing = 0;
  while (done < tasks) {
    const std::uint64_t until = std::min(tasks, done + block);
    rounds_take += timed([&] {
      for (; done < until; ++done) {
        wish.bays[0].log_offset = done * 100;
        const auto round = store.round(ends, wish, now());
        port::TaskEnd end;
        end.job = id;
        end.index = round.taken.at(0).index;
        end.at = now();
        end.exit_code = 0;
        end.log_length = 100;
        end.peak_memory_mib = 512;
        ends = {end};
      }
    });
    committing += timed([&] {
      for (std::uint64_t i = 0; i < block; ++i, ++rows) bare.run("INSERT INTO t VALUES(?, ?)", rows, rows);
    });
  }
  store.round(ends, std::nullopt, now());
  row("a round (a task's end, the next one's start)", rounds_take / static_cast<double>(tasks) * 1e6, "us");
  row("bare commit of one row", committing / static_cast<double>(rows) * 1e6, "us");
  row("file with that many finished tasks", static_cast<double>(bytes_of(directory)) / (1 << 20), "MiB");
  row("jobs (a process's first look)", timed([&] { store.rest(); (void)store.jobs({}); }) * 1e3, "ms");
  row("tasks: the last 100 of them", timed([&] { (void)store.tasks(id, tasks - 100, 100, {}); }) * 1e3, "ms");
  row("tasks: failed ones (none)", timed([&] { (void)store.tasks(id, 0, 100, {model::TaskState::failed}); }) * 1e3, "ms");
  port::Keep keep;
  keep.jobs = 0;
  row("prune it all, 10,000 at once", timed([&] { while (store.prune(keep, now()).empty()) {} }) * 1e3, "ms");
}

void cancelling(const std::string& folder, std::uint64_t tasks) {
  SqliteJobStore store(JobStoreOptions{.directory = fresh(folder, "cancel")});
  const port::Submission array = job(tasks);
  const auto whole = store.submit({&array, 1}, now()).at(0).id, half = store.submit({&array, 1}, now()).at(0).id;
  const port::Selection all{whole, whole, std::nullopt},
      some{half, half, std::pair<model::TaskIndex, model::TaskIndex>{0, tasks / 2 - 1}};
  row("cancel an array of that many tasks", timed([&] { store.alter({&all, 1}, port::Verb::cancel, now()); }) * 1e3, "ms");
  row("cancel the first half of its tasks", timed([&] { store.alter({&some, 1}, port::Verb::cancel, now()); }) * 1e3, "ms");
  row("retry them", timed([&] { store.alter({&some, 1}, port::Verb::retry, now()); }) * 1e3, "ms");
  const std::vector<port::Submission> many(tasks / 2, job(1));
  const auto first = store.submit(many, now()).at(0).id;
  const port::Selection jobs{first, first + many.size() - 1, std::nullopt};
  row("cancel half as many jobs of one task each", timed([&] {
                                                     store.alter({&jobs, 1}, port::Verb::cancel, now());
                                                   }) * 1e3,
      "ms");
}

void choosing(const std::string& folder) {
  const std::string directory = fresh(folder, "choose");
  queue_of(directory, 10'000);
  SqliteJobStore store(JobStoreOptions{.directory = directory});
  store.candidates(now(), 8);
  row("candidates among 10,000 queued jobs", timed([&] {
                                               for (int i = 0; i < 100; ++i) store.candidates(now(), 8);
                                             }) * 1e4,
      "us");
  row("jobs: all of the 10,000", timed([&] { (void)store.jobs({}); }) * 1e3, "ms");
}

}  // namespace
}  // namespace thole::bench

int main(int argc, char** argv) {
  using namespace thole::bench;
  const auto tasks = static_cast<std::uint64_t>(argc > 1 ? std::atoll(argv[1]) : 1'000'000);
  const auto submissions = static_cast<unsigned>(argc > 2 ? std::atoi(argv[2]) : 300);
  std::string pattern = (std::filesystem::temp_directory_path() / "thole_bench_XXXXXX").string();
  const std::string folder = ::mkdtemp(pattern.data());
  const std::string only = argc > 3 ? argv[3] : "";
  const auto wanted = [&](const char* part) { return only.empty() || only == part; };
  if (wanted("submit")) submitting(folder, submissions);
  if (wanted("lines")) lines(folder, tasks);
  if (wanted("cancel")) cancelling(folder, tasks);
  if (wanted("choose")) choosing(folder);
  if (wanted("rounds")) rounds(folder, tasks);
  std::filesystem::remove_all(folder);
}
