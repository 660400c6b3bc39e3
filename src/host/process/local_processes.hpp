// Processes of this machine: the real implementation of port::Processes.
#pragma once

#include "host/process/signals.hpp"
#include "port/processes.hpp"

namespace thole::host {

class LocalProcesses : public port::Processes {
 public:
  // `inherited` must be captured before anything changes a mask or a handler: first in main.
  explicit LocalProcesses(const InheritedSignals& inherited = InheritedSignals::capture()) : inherited_(inherited) {}

  void check_program(const port::ProcessSpec& spec) const override;
  [[noreturn]] void end_as(const port::Ended& ended) override;
  [[noreturn]] void become(const port::ProcessSpec& spec) override;

 private:
  InheritedSignals inherited_;
};

}  // namespace thole::host
