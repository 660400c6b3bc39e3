// The claims and the line as the store tells everybody of them, in the terms of the rule: what is promised by it is what the
// rule promises.
#pragma once

#include <string>
#include <vector>

#include "base/time.hpp"
#include "model/claim.hpp"
#include "model/queue_view.hpp"
#include "plan/turn/turn.hpp"

namespace thole::app {

struct LineAsTold {
  model::QueueView view;
  std::vector<plan::SlotState> states;

  // Units first. Whose declared end has passed may stay as long as he likes: he ends at no time that could be counted on.
  void add(const std::string& key, const std::vector<model::Holding>& holdings, plan::SlotState state, WallTime now);
  void add(const model::Waiting& waiting);
};

}  // namespace thole::app
