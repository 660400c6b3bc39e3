// Sweeps: from what people type to the variables of a job, and from a task's number to the words of its command.
//
// How this works. Tasks count from 0 and the last variable changes fastest, as nested loops would have it; where a job has
// items too (the rows of a CSV file, the lines of a text), the item changes slowest. A range stays a range, so that a million
// tasks are a few bytes; nothing is expanded before a task starts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/job.hpp"

namespace thole::plan {

// May `name` stand in braces? A letter or "_", then letters, digits and "_.-".
bool is_variable_name(std::string_view name);

// "job", "task", "index" and "line" have a meaning of their own.
bool is_reserved_name(std::string_view name);

// "lr=1e-3,1e-4", "seed=0..4", "n=001..100,200", "k=0..100..10"; a value with a comma stands in quotes: "text=\"a,b\",c".
// Throws Error(usage) that quotes `text`.
model::GridVariable parse_grid(std::string_view text);

// Slurm's form of a task array, as a variable named "index": "0-99", "1-10:3", "1,5,7-9", and "0-99%4" where at most four run
// at once.
struct ArrayWord {
  model::GridVariable index;
  std::optional<std::uint64_t> at_most;
};
ArrayWord parse_array(std::string_view text);

// How many tasks a sweep over so many items has (1 where it has none). Throws Error(usage) for a name given twice and for more
// than model::most_tasks.
std::uint64_t tasks_of(const model::Sweep& sweep, std::uint64_t items);

// The row of the items that a task is of.
std::uint64_t item_of(const model::Sweep& sweep, model::TaskIndex task);

// The variables of one task, with {job}, {task} ("12.3") and {index}; `cells`: its item's.
std::map<std::string, std::string> task_values(const model::Sweep& sweep, model::JobId job, model::TaskIndex task,
                                               const std::vector<std::string>& cells);

// The command of one task. Where there is no sweep the words are the command as they stand.
std::vector<std::string> task_command(const model::JobSpec& spec, model::JobId job, model::TaskIndex task,
                                      const std::vector<std::string>& cells);

// What a command template may name, to be checked when it is submitted: throws Error(usage) with the nearest name. A job with
// lines whose command has no field for them gets one: {} as its last word.
void check_command(model::JobSpec& spec);

}  // namespace thole::plan
