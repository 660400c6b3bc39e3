// What the first look makes of a request, and each later one of it again.
//
// A driver that is late has not said that a GPU is sick. Who may wait looks again, with growing pauses, until it has answered.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "app/claim/acquire.hpp"
#include "app/claim/outer_claim.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "plan/place/select.hpp"
#include "port/gpu_backend.hpp"

namespace thole::app {

port::Question question_for(const model::Request& request);   // what has to be known of the GPUs to decide about it

// Selects; while the driver is late about GPUs that are needed, looks again until `deadline` or a cancel.
plan::Selection select_in_time(const Site& site, const model::Request& request, const AcquireOptions& options,
                               const OuterClaim* within, std::optional<SteadyTime> deadline,
                               const std::optional<Allotment>& allotted);

bool may_come_back(const Error& error);   // whether who could have it before waits for it again

// What the first look has made of a request.
struct Wish {
  model::Request request, lasting;       // as it was asked; the same at every look
  std::vector<std::size_t> eligible;
  std::optional<Error> lack;             // why it cannot be met now, though it could be once
  std::optional<Allotment> allotted;
  std::optional<SteadyTime> deadline;
};

Wish wish_for(const Site& site, const model::Request& asked, const AcquireOptions& options, const OuterClaim* within);

[[noreturn]] void wait_interrupted();

}  // namespace thole::app
