// From what people call jobs (plan/job/names.hpp) to the jobs there are.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/job.hpp"
#include "port/job_store.hpp"

namespace thole::app {

// Each word's jobs and tasks, in the order of the words. A number, a name or a task that does not exist throws Error(usage)
// with what is nearest; of a range it is enough that some exist.
std::vector<port::Selection> selections(port::JobReader& jobs, const std::vector<std::string>& words);

// The words of --after. A job that has gone from memory is none to wait for: Error(usage).
std::vector<model::Dependency> dependencies(port::JobReader& jobs, const std::vector<std::string>& words);

// The jobs selected, in order of id, each once.
std::vector<model::Job> jobs_of(port::JobReader& jobs, const std::vector<port::Selection>& selections);

std::optional<model::Job> job_of(port::JobReader& jobs, model::JobId id);

// The newest job, if there is any.
std::optional<model::Job> newest_job(port::JobReader& jobs);

}  // namespace thole::app
