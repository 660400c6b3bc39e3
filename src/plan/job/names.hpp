// What people call jobs and tasks: "7", "3,5-9", "@" or "last", "12.3", "12.0-99", "train"; and with a condition, as --after
// takes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/job.hpp"

namespace thole::plan {

struct Numbers {                                 // both ends included
  std::uint64_t first = 0, last = 0;
  bool operator==(const Numbers&) const = default;
};

struct TaskName {
  enum class Jobs { numbered, newest, all, named };
  Jobs jobs = Jobs::numbered;
  Numbers numbers;                               // numbered
  std::string name;                              // named: of a job, or a tag
  std::optional<Numbers> tasks;                  // nothing: the whole job
  std::string word;                              // as typed, for messages

  bool one_job() const { return jobs == Jobs::newest || (jobs == Jobs::numbered && numbers.first == numbers.last); }
};

// One word, perhaps several names with commas between them. Throws Error(usage) that quotes the piece that is none.
std::vector<TaskName> parse_task_names(std::string_view word);

// --after: each name perhaps with ":ok" (ended with success, the default), ":any" (ended) or ":fail".
struct AfterName {
  TaskName name;
  model::After when = model::After::ok;
};
std::vector<AfterName> parse_after_names(std::string_view word);

// Jobs by the jobs they wait for. The jobs along a circle, in the order in which each waits for the next, the first one again
// at the end; empty when there is none.
using Dependencies = std::map<std::uint64_t, std::vector<std::uint64_t>>;
std::vector<std::uint64_t> find_cycle(const Dependencies& waits_for);

// "3 waits for 5, which waits for 3"
std::string describe_cycle(const std::vector<std::string>& jobs);

}  // namespace thole::plan
