// What the command line says to the verbs of the durable queue.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "model/job.hpp"

namespace thole::cli {

struct SubmitOptions {
  model::JobSpec spec;                           // name, tags, retry, …: what one option says by itself
  model::JobTerms terms;
  std::vector<std::string> grid, env, after;     // as typed
  std::string array, csv, lines, file, begin, directory;
  bool if_absent = false;
  bool snapshot = false;
};

struct JobsOptions {
  bool all = false;
  bool tasks = false;
  bool watch = false;
  std::set<model::TaskState> states;
  std::vector<std::string> tags;
};

struct LogsOptions {
  bool follow = false;
  bool path = false;
  std::optional<std::uint64_t> lines;            // only the last so many
};

struct WaitOptions {
  std::optional<Millis> timeout;
  bool any = false;
};

// "" = not given; "none" (and for begin "now") takes the term away.
struct EditOptions {
  std::optional<int> priority;
  std::string begin, at_most;
  std::optional<std::optional<Seconds>> time;    // nothing inside: none
  std::vector<std::string> after;
};

struct QueueOptions {
  std::optional<std::string> directory;          // --queue-dir
  SubmitOptions submit;
  JobsOptions jobs;
  LogsOptions logs;
  WaitOptions wait;
  EditOptions edit;
  bool drain_off = false;
  bool cancel_force = false;
};

}  // namespace thole::cli
