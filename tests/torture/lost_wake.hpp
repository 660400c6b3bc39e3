// What is needed to find out why nobody woke a waiter: what its last passes have shown, and what they decided.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/queue_view.hpp"
#include "port/claim_store.hpp"

namespace thole::torture {

struct Pass {
  std::string wake = "first";                     // what it was woken by
  std::int64_t at_ms = 0;
  std::string seen;
};

std::string describe(const model::QueueView& queue, std::optional<std::uint64_t> mine, const model::Wants& wants,
                     const model::Decision& decision, WallTime now);

// Of one that came by the clock; `last`: its last wait.
std::string describe_lost(const port::Entry& entry, const model::Wait& last, bool overtook, const std::vector<Pass>& passes);

}  // namespace thole::torture
