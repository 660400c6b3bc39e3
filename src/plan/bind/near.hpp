// Which cores are near a GPU, and what is taken instead where that is not known or not allowed.
#pragma once

#include <optional>
#include <string>

#include "model/machine.hpp"
#include "plan/bind/cores.hpp"

namespace thole::plan {

enum class Reach { node, package, machine };   // how far from the GPU the cores are taken

// What the platform says, whether allowed or not; nothing where it says nothing. Known to be empty is an answer.
std::optional<model::CpuSet> near_node(const model::Machine& machine, const model::Gpu& gpu);
std::optional<model::CpuSet> near_package(const model::Machine& machine, const model::Gpu& gpu);

struct Territory {
  CoreList cores;                              // empty only when there is no usable core at all
  Reach reach = Reach::node;
  std::string lack;                            // why it is wider than asked for; "" = as asked
};

// The usable cores near GPU number `gpu` within `asked`, else within the next wider reach that has any: node, package, machine.
Territory territory(const model::Machine& machine, std::size_t gpu, Reach asked, const Cores& cores);

}  // namespace thole::plan
