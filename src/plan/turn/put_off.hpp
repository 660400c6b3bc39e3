// A claim that was let past others, since it had declared an end, is to keep it: whose promised start a later end would move.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/queue_view.hpp"

namespace thole::plan {

// Who waits before `mine` (before nobody: in front of all) for some of the slots that I take now.
std::vector<model::InLine> passed_by(const model::QueueView& queue, std::optional<std::uint64_t> mine,
                                     const model::SlotSet& taken);

struct PutOff {
  std::uint32_t uid = 0;
  WallTime promised{};                           // the start, as long as nothing ends later
  bool operator==(const PutOff&) const = default;
};

// The first of `passed` who still waits, and whose start would no longer be promised, or later, if this user's claim of `held`
// ended at `until`. Slots that the driver's report keeps from somebody count as usable: that may change by then.
std::optional<PutOff> put_off(const model::QueueView& queue, const model::SlotSet& held, std::uint32_t uid, WallTime until,
                              std::span<const model::InLine> passed, WallTime now);

}  // namespace thole::plan
