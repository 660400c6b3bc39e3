// What the runner of a queue sees of the tasks that dead lanes have left, told to all who look at the queue: the file `unseen`
// in its directory. Each runner removes the one before it, and writes its own once it has looked; so the file speaks for the
// runner that sits, if any does.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/task_ranges.hpp"
#include "port/lanes.hpp"

namespace thole::host {

// How it is kept: tasks of a job of which the same is to be said are ranges, so that a few thousand need no more room than one.
struct UnseenTasks {
  port::UnseenRun one;                           // what is said of each; the task is the first one's
  std::vector<model::TaskRange> ranges;
};

struct UnseenNote {
  std::uint64_t pid_namespace = 0, user_namespace = 0;   // of the runner; the latter 0: the first one
  std::set<port::SeenFrom> seen;
  std::vector<UnseenTasks> tasks;

  std::optional<port::UnseenRun> find(const model::Task& task) const;
};

// Nothing: there is none, it is being written, or it is none that can be read whole.
std::optional<UnseenNote> read_unseen(const std::string& path);

// Of a runner in this process.
class UnseenWriter {
 public:
  explicit UnseenWriter(std::string path) : path_(std::move(path)) {}

  // Does nothing where it stands there already: nobody has removed it, or written another one. Throws Error(unavailable).
  void write(const port::RunnerSight& sight);

 private:
  bool stands() const;

  std::string path_, text_;
  struct stat written_ {};
};

// Whether this process would see what that runner does not, and all that it does.
bool sees_more_here(const UnseenNote& note);

}  // namespace thole::host
