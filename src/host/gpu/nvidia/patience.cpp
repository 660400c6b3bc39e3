#include "host/gpu/nvidia/patience.hpp"

#include <algorithm>
#include <vector>

namespace thole::host::nvidia {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr Millis doubtful_patience{500};                   // for a GPU that did not answer last time, once all others have
constexpr Millis least_grace{3'000};                       // a GPU that nobody uses takes a second or two to wake
constexpr Millis least_flow{500};
constexpr int slower = 4;                                  // a GPU in use may take this many times as long as an idle one

std::vector<std::uint32_t> asked_of(const ProbeRequest& request, const RawReading& answer) {
  if (!request.only.empty()) return request.only;
  std::vector<std::uint32_t> all;
  for (std::uint32_t i = 0; i < answer.driver->count.value; ++i) all.push_back(i);
  return all;
}

}  // namespace

std::optional<Millis> Flow::next_within(const RawReading& answer) {
  const SteadyTime now = SteadyClock::now();
  if (started_) slowest_ = std::max(slowest_, std::chrono::ceil<Millis>(now - last_));
  last_ = now;
  if (!answer.driver || !answer.driver->count) return std::nullopt;
  started_ = true;
  bool any = false, all_doubtful = true, all_begun = true;
  for (std::uint32_t gpu : asked_of(request_, answer)) {
    if (answer.has(gpu)) {
      any = true;
      continue;
    }
    all_doubtful = all_doubtful && std::ranges::find(request_.last, gpu) != request_.last.end();
    all_begun = all_begun && answer.in_progress.contains(gpu);
  }
  if (all_doubtful && !request_.last.empty()) return doubtful_patience;
  if (any && all_begun) return std::max(least_grace, slower * slowest_);
  return std::nullopt;
}

bool Flow::still_coming(const RawReading& answer) const {
  const SteadyTime now = SteadyClock::now();
  if (now < deadline_) return false;                       // it had the time that next_within gave it
  if (answer.identities.empty()) return request_.last.empty();
  return now - last_ < std::max(least_flow, 2 * slowest_);
}

}  // namespace thole::host::nvidia
