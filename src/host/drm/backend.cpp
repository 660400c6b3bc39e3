#include "host/drm/backend.hpp"

#include <algorithm>

#include "host/sysfs/people.hpp"

namespace thole::host {

namespace {

// What the probe adds to a GPU known from safe files. Health found by permissions stays: it says what the user can mend.
void add_observed(model::Gpu& gpu, model::Gpu observed) {
  gpu.use = std::move(observed.use);
  if (gpu.health != model::Health::ok) return;
  gpu.health = observed.health;
  gpu.health_reason = std::move(observed.health_reason);
}

}  // namespace

FileBackend::FileBackend(const FileVendor& vendor, std::string root) : vendor_(vendor), tree_(std::move(root)) {}

port::Reading FileBackend::read(Millis) {
  if (std::string now = vendor_.generation(tree_); generation_ != now) {
    identified_ = vendor_.identify(tree_);
    generation_ = std::move(now);
  }
  port::Reading reading;
  reading.gpus = identified_;
  reading.observation.backend = vendor_.name;
  reading.observation.source = vendor_.source;
  reading.observation.problem = vendor_.problem(tree_);
  reading.observation.pids_foreign = in_pid_namespace(tree_);
  if (reading.gpus.empty()) return reading;
  vendor_.observe(tree_, [&](model::Gpu observed) {
    const std::string key = observed.key();
    auto gpu = std::find_if(reading.gpus.begin(), reading.gpus.end(), [&](const model::Gpu& known) { return known.key() == key; });
    if (gpu != reading.gpus.end()) add_observed(*gpu, std::move(observed));
  });
  return reading;
}

}  // namespace thole::host
