// A binding plan that the test takes for possible.
#pragma once

#include <gtest/gtest.h>

#include "plan/bind/bind.hpp"

namespace thole::test {

// An empty one, and a failure, where it is refused.
inline model::BindingPlan planned(const model::Machine& machine, const model::BindRequest& request) {
  auto answer = plan::bind(machine, request);
  if (auto* plan = std::get_if<model::BindingPlan>(&answer)) return std::move(*plan);
  ADD_FAILURE() << std::get<model::BindRefusal>(answer).message;
  return {};
}

}  // namespace thole::test
