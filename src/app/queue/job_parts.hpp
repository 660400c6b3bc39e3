// Jobs and tasks as people name them: a job as a whole, or some tasks of it, with what became of those.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/job.hpp"
#include "model/task_ranges.hpp"
#include "port/job_reader.hpp"

namespace thole::app {

struct JobPart {
  model::Job job;
  std::optional<model::TaskRange> tasks;                // nothing: all of it
  model::TaskCounts counts;                      // of these tasks, as counts_of() gives them

  model::TaskRange range() const { return tasks.value_or(model::TaskRange{0, job.tasks - 1}); }
  std::uint64_t size() const { return range().second - range().first + 1; }
  std::string name() const;                      // "12", "12.3", "12.1-4"
};

JobPart whole(const model::Job& job);

// In the order of the jobs' numbers. A job that is named as a whole is one part, whatever of it is named beside that.
std::vector<JobPart> parts_of(port::JobReader& jobs, const std::vector<port::Selection>& which);

}  // namespace thole::app
