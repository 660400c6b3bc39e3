// How long to go on waiting for a driver that answers: a slow one is not a hung one.
#pragma once

#include <chrono>
#include <optional>

#include "base/time.hpp"
#include "host/gpu/nvidia/request.hpp"
#include "host/gpu/nvidia/translate.hpp"

namespace thole::host::nvidia {

// Watches the records of one answer come in. While some GPUs have not been begun, the asker's own patience is all that counts.
// When only GPUs are left that the driver has been asked about while others have answered, they get several times what the
// slowest of the others took; one that did not answer the last time gets little.
class Flow {
 public:
  Flow(const ProbeRequest& request, SteadyTime deadline) : request_(request), deadline_(deadline) {}

  // After each record: how long the next one may take, where that is shorter than what is left.
  std::optional<Millis> next_within(const RawReading& answer);

  // At the deadline: whether the driver comes up or answers are still arriving.
  bool still_coming(const RawReading& answer) const;

 private:
  const ProbeRequest& request_;
  SteadyTime deadline_;
  SteadyTime last_{std::chrono::steady_clock::now()};
  bool started_ = false;
  Millis slowest_{0};
};

}  // namespace thole::host::nvidia
