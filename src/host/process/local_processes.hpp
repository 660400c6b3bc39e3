// Processes of this machine: the real implementation of port::Processes.
#pragma once

#include <memory>

#include "host/process/job_cgroup.hpp"
#include "host/process/signals.hpp"
#include "host/process/supervise.hpp"
#include "host/process/witness.hpp"
#include "port/processes.hpp"

namespace thole::host {

class LocalProcesses : public port::Processes {
 public:
  // `inherited` must be captured before anything changes a mask or a handler: first in main.
  explicit LocalProcesses(const InheritedSignals& inherited = InheritedSignals::capture()) : inherited_(inherited) {}

  void check_program(const port::ProcessSpec& spec) const override;
  pid_t start(const port::ProcessSpec& spec) override;
  port::Ended supervise(pid_t pid, const port::SupervisePolicy& policy) override;
  [[noreturn]] void end_as(const port::Ended& ended) override;
  [[noreturn]] void become(const port::ProcessSpec& spec) override;

 private:
  InheritedSignals inherited_;
  std::unique_ptr<AllSignalsBlocked> blocked_;  // from start to the end of supervise
  FromBefore before_;                           // of start
  std::unique_ptr<JobCgroup> cgroup_;           // of the command, where it has one of its own
  std::unique_ptr<Witness> witness_;            // outlives supervise, so that its death is not waited for before we end
};

}  // namespace thole::host
