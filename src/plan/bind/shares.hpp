// Who gets which cores in the modes that give every GPU cores of its own.
//
// A division is made for all GPUs of the machine, claimed or not and whether or not they are in the request: so two jobs that
// know nothing of each other never get the same core.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/binding.hpp"
#include "model/machine.hpp"
#include "plan/bind/cores.hpp"
#include "plan/bind/near.hpp"

namespace thole::plan {

struct Share {
  CoreList cores;
  std::string why;                             // "node 3: 8 of its 16 cores, divided among GPUs 0,1"
  std::string lack;                            // why it is not what was asked for; "" = it is
};

// Cuts a list into `parts` runs of nearly equal length; lower parts are the longer ones. Big and small cores (by their
// threads) are cut apart, so that every part gets of both.
std::vector<CoreList> cut(const CoreList& list, std::size_t parts, const Cores& cores);

// exclusive: every GPU's part of the cores near it. By GPU number.
std::vector<Share> divide(const model::Machine& machine, const Cores& cores, const model::BindOptions& options);

// l3: the cores near each GPU under one L3 cache; GPUs near the same cores take the caches in turn. By GPU number.
std::vector<Share> by_cache(const model::Machine& machine, const Cores& cores);

// "GPU 0", "GPUs 0,1".
std::string gpus_text(const std::vector<std::size_t>& gpus);

}  // namespace thole::plan
