// Port: the children of this process: lanes that it has forked, and what dead ones have left to it, in the end the commands of
// their tasks. Nobody but their parent is told how they ended.
#pragma once

#include <sys/types.h>

#include <optional>
#include <span>

#include "model/command.hpp"
#include "model/lane_record.hpp"

namespace thole::port {

class Children {
 public:
  virtual ~Children() = default;

  struct Child {
    bool is_ours = false;
    std::optional<model::HowEnded> ended;               // it has its number until it is buried
    bool is_gone = false;                               // it has ended, and nobody will know how
  };
  virtual Child look(pid_t pid) = 0;

  // The same of what a dead lane has noted as a command of its task: another's who has its number by now is none of ours. Where
  // the lane has not come to noting who it is, it is what has this number and is no lane.
  virtual Child look_at_command(pid_t pid, const model::ProcessIdentity& noted) = 0;

  virtual void bury(pid_t pid) = 0;              // does nothing to what lives, or is no child of ours

  // All other children that have ended: of what came to us in this moment nobody may know yet that it will be asked for, so
  // only what was found by the call before, too.
  virtual void bury_others(std::span<const pid_t> asked_for) = 0;
};

}  // namespace thole::port
