// The units that can be claimed: a whole GPU, or one instance of a partitioned GPU.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/machine.hpp"

namespace thole::model {

struct Unit {
  std::string key;                  // the name of its lock: UUID, or pci-<address>.<part>; matches [A-Za-z0-9.:-]+
  std::size_t gpu = 0;              // index into Machine::gpus
  std::optional<std::size_t> instance;  // index into Gpu::mig, for an instance
  std::string label;                // for people: "3", or "3:1" for the second instance of GPU 3

  const Gpu& gpu_of(const Machine& machine) const { return machine.gpus[gpu]; }
  // Of an instance: the key that all of its GPU has where that is a unit. Else "".
  std::string whole_key(const Machine& machine) const;
  const Use& use_of(const Machine& machine) const;
  std::optional<std::uint64_t> memory_mib_of(const Machine& machine) const;
  std::string model_of(const Machine& machine) const;  // "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
};

// Every claimable unit in machine order: whole GPUs, and instead of a partitioned GPU its instances.
// A GPU in MIG mode without instances has none.
std::vector<Unit> units(const Machine& machine);

// Which of them has this key.
std::optional<std::size_t> index_of(std::string_view key, const std::vector<Unit>& units);

}  // namespace thole::model
