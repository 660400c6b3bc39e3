// Why a job does not run yet, where it runs, or how it ended: sentences, the most important first.
#pragma once

#include <string>
#include <vector>

#include "app/queue/job_actions.hpp"
#include "app/show/overview.hpp"

namespace thole::app {

struct JobWhy {
  model::JobId job = 0;
  std::string name;                              // "12", "12 (train)"
  std::string state;
  std::vector<std::string> sentences;
};

// Of all these jobs, in the order of their numbers.
std::vector<JobWhy> why_jobs(Queue queue, const std::vector<port::Selection>& which, const Overview& machine);

}  // namespace thole::app
