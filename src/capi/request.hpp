// What a caller of thole_claim_gpus or thole_plan asks for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "base/time.hpp"
#include "model/json.hpp"
#include "wire/config.hpp"

namespace thole::capi {

struct Wish {
  model::Request request;
  plan::Ids ids = plan::Ids::automatic;
  std::string command;                 // what others see
  bool not_started = false;            // refuse where this process computes on a GPU already
  std::vector<std::string> own;        // claims that the caller ends itself
  std::optional<Millis> try_for;       // after the first look; longer than that is interrupted
  std::optional<int> tell;             // a descriptor that hears of the wait
};

// What its caller is told of a wait.
model::Json as_told(app::Site& site, const model::Request& request, const model::Wait& wait);

// From the JSON text of a request (NULL: one GPU) on top of the configured defaults. Throws Error(usage).
Wish read_wish(const char* json, const wire::Config& config);

}  // namespace thole::capi
