// The memory of a card by its driver's own query on the render node, which anybody who may open that node may ask. It can take
// locks of the driver and wakes a card that sleeps: asked by the probe, once a boot (see FileBackend).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "host/gpu/intel/identity.hpp"

namespace thole::host::intel {

// ioctl(2) on the render node of a card: request, argument; 0 or -1.
using Query = std::function<int(unsigned long, void*)>;

// Bytes of each memory on the card, in the driver's order: one a tile. Empty when the driver does not tell.
std::vector<std::uint64_t> card_memories(Driver driver, const Query& query);

// Of the GPU, or of the one tile.
std::optional<std::uint64_t> asked_memory_mib(const Tree& tree, const IntelGpu& entry);

}  // namespace thole::host::intel
