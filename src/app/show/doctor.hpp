// What is wrong with this machine from thole's point of view, and how to mend it; pure.
#pragma once

#include <string>
#include <vector>

#include "app/show/overview.hpp"
#include "base/error.hpp"
#include "base/shell_kind.hpp"
#include "model/surroundings.hpp"

namespace thole::app {

struct Check {
  enum class Result { ok, warning, problem };  // problem: some command of thole will not do its work
  std::string name;                            // "driver", "devices", "state directory", …
  Result result = Result::ok;
  std::string text;
  std::string fix;  // a command or a sentence; "" when there is nothing to do
};
const char* to_string(Check::Result result);

// Where things lie; "" where there is none, or it cannot be told (then `problem` says why, and `fix` how to mend it).
struct Directory {
  std::string path;
  bool there = false;
  std::string problem{}, fix{};
  std::string taken{};                           // a name that somebody else has: it will get one with a number
};
struct Directories {
  Directory personal, queue;
  std::string caches, logs;
  std::vector<std::string> queue_cautions, other_queues;
  std::vector<Directory> queue_files{};   // what cannot be used of those in it
  std::string queue_kept{};   // who keeps it from being written; "" when nobody does
  std::vector<std::string> crowds_of_names{};   // in /tmp and /var/tmp: whose they are
  Directory claims{};         // where there is no state directory yet: of the first claim's; only what is wrong there
};

struct Findings {
  const Overview& overview;
  const model::Surroundings& surroundings;
  std::optional<port::StoreAbout> store;  // absent: there is none yet, or it could not be opened (overview.claims_problem)
  std::vector<std::string> config_files;  // read
  std::vector<std::string> config_cautions;
  Millis look{0};  // how long the look at the GPUs took
  std::string topology_problem{};         // why the CPUs are not known; "" when they are
  Directories directories{};
  std::vector<Error> config_mistakes{};   // of files and variables that were left out
  std::string state_dir{};                // asked for by name; "" when it was not
  std::optional<pid_t> stopped_runner{};  // of the queue
  AskShell shell{};
  std::optional<Error> want{};            // this process may have too little of something to look at everything
};

// In the order in which to mend them.
std::vector<Check> examine(const Findings& findings);

}  // namespace thole::app
