#include "model/bind_wishes.hpp"

namespace thole::model {

bool BindWishes::set_mode(std::string_view text) {
  BindOptions read;
  if (!parse_bind_mode(text, read)) return false;
  mode = read.mode;
  cores = read.cores;
  return true;
}

bool BindWishes::set_memory(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto policy = parse_memory_policy(text.substr(0, colon));
  if (!policy) return false;
  std::optional<std::vector<int>> nodes;
  if (colon != std::string_view::npos) {
    const auto list = CpuSet::parse(text.substr(colon + 1));  // node lists are written like CPU lists
    if (!list || list->empty() || *policy == MemoryPolicy::first_touch) return false;
    nodes.emplace();
    for (unsigned node : list->to_vector()) nodes->push_back(static_cast<int>(node));
  }
  memory = policy;
  memory_nodes = std::move(nodes);
  return true;
}

BindOptions BindWishes::over(BindOptions base) const {
  if (off) {                                     // also what an earlier wish, a site's, turned on
    base = BindOptions();
    base.mode = BindMode::none;
    base.nic = NicMode::none;
  }
  if (mode) {
    base.mode = *mode;
    base.cores = cores;
    base.widen = false;                          // who says "node" means the node
  }
  if (smt) base.smt = *smt;
  if (balanced) base.balanced = *balanced;
  if (lend) base.lend = *lend;
  if (strict) base.strict = *strict;
  if (reserve) base.reserve = *reserve;
  if (memory) {
    base.memory = *memory;
    base.memory_nodes = memory_nodes;
  }
  if (nic) base.nic = *nic;
  if (threads) base.threads = *threads;
  return base;
}

}  // namespace thole::model
