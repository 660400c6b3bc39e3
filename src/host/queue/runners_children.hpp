// The children of a runner: the real implementation of port::Children.
#pragma once

#include <set>

#include "port/children.hpp"

namespace thole::host {

class RunnersChildren : public port::Children {
 public:
  Child look(pid_t pid) override;
  Child look_at_command(pid_t pid, const model::ProcessIdentity& noted) override;
  void bury(pid_t pid) override;
  void bury_others(std::span<const pid_t> asked_for) override;

 private:
  std::set<pid_t> found_;                        // by the call before
};

}  // namespace thole::host
