// Port: the children of this process: lanes that it has forked, and what dead ones have left to it, in the end the commands of
// their tasks. Nobody but their parent is told how they ended.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>

#include "model/command.hpp"

namespace thole::port {

class Children {
 public:
  virtual ~Children() = default;

  struct Child {
    bool is_ours = false;
    std::optional<model::HowEnded> ended;               // it has its number until it is buried
  };
  virtual Child look(pid_t pid) = 0;

  virtual void bury(pid_t pid) = 0;              // does nothing to what lives, or is no child of ours

  // All other children that have ended: of what came to us in this moment nobody may know yet that it will be asked for, so
  // only what was found by the call before, too.
  virtual void bury_others(std::span<const pid_t> asked_for) = 0;
};

}  // namespace thole::port
