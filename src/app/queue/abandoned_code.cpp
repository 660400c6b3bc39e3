#include "app/queue/abandoned_code.hpp"

#include <map>

#include "base/error.hpp"

namespace thole::app {

namespace {

// It reads every job, but only after somebody was killed between two system calls.
std::map<std::string, model::JobId> owners(port::JobReader& jobs) {
  std::map<std::string, model::JobId> all;
  for (const model::Job& job : jobs.jobs({})) {
    try {
      if (std::string copy = jobs.spec(job.id).snapshot; !copy.empty()) all.emplace(std::move(copy), job.id);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::usage) throw;   // forgotten since it was listed
    }
  }
  return all;
}

}  // namespace

void settle_code(port::JobReader& jobs, port::QueueFolder& folder) {
  std::optional<std::map<std::string, model::JobId>> known;
  folder.settle_code([&](const std::string& copy) -> std::optional<model::JobId> {
    if (!known) known = owners(jobs);
    const auto found = known->find(copy);
    return found == known->end() ? std::nullopt : std::optional(found->second);
  });
}

}  // namespace thole::app
