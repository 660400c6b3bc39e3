// What the first look makes of a request.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "app/claim/outer_claim.hpp"
#include "base/error.hpp"
#include "base/time.hpp"
#include "port/gpu_backend.hpp"

namespace thole::app {

port::Question question_for(const model::Request& request);   // what has to be known of the GPUs to decide about it

bool may_come_back(const Error& error);   // whether who could have it before waits for it again

// What the first look has made of a request.
struct Wish {
  model::Request request, lasting;       // as it was asked; the same at every look
  std::vector<std::size_t> eligible;
  std::optional<Error> lack;             // why it cannot be met now, though it could be once
  std::string late;                      // GPUs that it needs and the driver has not answered about, where it may wait for that
  std::optional<Allotment> allotted;
  std::optional<SteadyTime> deadline;
};

// Throws NeverPossible, and DriverTrouble; not that where he waits already (`in_line`): then it is what he lacks.
Wish wish_for(const Site& site, const model::Request& asked, const AcquireOptions& options, const OuterClaim* within,
              std::optional<SteadyTime> deadline, bool in_line = false);

[[noreturn]] void wait_interrupted();
void heed_interruption(const AcquireOptions& options);   // throws it where `cancel` says so

}  // namespace thole::app
