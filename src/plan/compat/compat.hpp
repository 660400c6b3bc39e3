// NVIDIA gpu_affinity's assignment of cores to ranks, as the original computes it.
#pragma once

#include <cstddef>
#include <variant>
#include <vector>

#include "model/binding.hpp"
#include "model/machine.hpp"

namespace thole::plan {

// The CPUs of each rank; rank r drives GPU gpus[r] and is the original's gpu_id r with nproc_per_node = gpus.size(). Where any
// of the ranks would raise in the original, all of it is one refusal. `smt one` is its single_logical.
std::variant<std::vector<model::CpuSet>, model::BindRefusal> compat(const model::Machine& machine,
                                                                    const std::optional<model::CpuSet>& allowed,
                                                                    const std::vector<std::size_t>& gpus,
                                                                    const model::CompatOptions& options, model::Smt smt);

}  // namespace thole::plan
