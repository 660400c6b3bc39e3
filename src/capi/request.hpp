// What a caller of thole_claim_gpus or thole_plan asks for.
#pragma once

#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "wire/config.hpp"

namespace thole::capi {

struct Wish {
  model::Request request;
  plan::Ids ids = plan::Ids::automatic;
  std::string command;                 // what others see
  bool not_started = false;            // refuse where this process computes on a GPU already
  std::vector<std::string> own;        // claims that the caller ends itself
};

// From the JSON text of a request (NULL: one GPU) on top of the configured defaults. Throws Error(usage).
Wish read_wish(const char* json, const wire::Config& config);

}  // namespace thole::capi
