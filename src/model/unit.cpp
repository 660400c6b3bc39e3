#include "model/unit.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace thole::model {

std::string Unit::whole_key(const Machine& machine) const { return instance ? gpu_of(machine).key() : ""; }

const Use& Unit::use_of(const Machine& machine) const {
  const Gpu& whole = gpu_of(machine);
  return instance ? whole.mig[*instance].use : whole.use;
}

std::optional<std::uint64_t> Unit::memory_mib_of(const Machine& machine) const {
  const Gpu& whole = gpu_of(machine);
  return instance ? whole.mig[*instance].memory_mib : whole.memory_mib;
}

std::string Unit::model_of(const Machine& machine) const {
  const Gpu& whole = gpu_of(machine);
  if (!instance) return whole.model;
  std::string text = whole.model;
  for (const std::string& word : {std::string(row_of(whole.vendor).instances), whole.mig[*instance].profile})
    if (!word.empty()) text += " " + word;
  return text;
}

std::vector<Unit> units(const Machine& machine) {
  std::vector<Unit> all;
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
    const Gpu& gpu = machine.gpus[g];
    if (!gpu.mig_mode && gpu.mig.empty()) {
      all.push_back({.key = gpu.key(), .gpu = g, .instance = std::nullopt, .label = std::to_string(g)});
      continue;
    }
    for (std::size_t i = 0; i < gpu.mig.size(); ++i) {
      std::string own = gpu.mig[i].uuid;
      std::string key = own.empty() ? lock_name(fmt::format("{}.{}", gpu.key(), i)) : lock_name(own);
      all.push_back({.key = key, .gpu = g, .instance = i, .label = fmt::format("{}:{}", g, i)});
    }
  }
  return all;
}

std::optional<std::size_t> index_of(std::string_view key, const std::vector<Unit>& units) {
  const auto found = std::ranges::find(units, key, &Unit::key);
  return found == units.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - units.begin()));
}

}  // namespace thole::model
