// The CPUs and memory nodes of processes of this machine: the real implementation of port::Binder.
#pragma once

#include "port/binder.hpp"

namespace thole::host {

class LocalBinder : public port::Binder {
 public:
  model::CpuSet allowed_cpus() override;
  port::MemoryAccess memory() override;
  std::map<std::string, std::string> environment_of(pid_t pid) override;
  port::BoundProcess bind_process(pid_t pid, const model::CpuSet& cpus) override;
};

}  // namespace thole::host
