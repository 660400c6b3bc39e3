#include "host/topology/cache.hpp"

#include "base/text.hpp"
#include "base/version.hpp"

namespace thole::host {

std::string topology_key(const Tree& tree) {
  const auto boot = tree.text("/proc/sys/kernel/random/boot_id");
  if (!boot || boot->empty()) return "";
  std::string key = fmt::format("{} {} {} cpus {} nodes {}", version, tree.at(""), *boot,
                                tree.text("/sys/devices/system/cpu/online").value_or("?"),
                                tree.text("/sys/devices/system/node/online").value_or("?"));
  const std::string infiniband = "/sys/class/infiniband", network = "/sys/class/net";
  for (const std::string& name : tree.names(infiniband)) key += " " + name;
  // Containers and virtual machines come and go with interfaces of their own; those have no device behind them.
  for (const std::string& name : tree.names(network))
    if (tree.exists(fmt::format("{}/{}/device", network, name))) key += " " + name;
  return key;
}

std::optional<Topology> TopologyCache::find(const std::string& key) const {
  const auto text = text_.find(key);
  return text ? topology_from_text(*text) : std::nullopt;
}

void TopologyCache::keep(const std::string& key, const Topology& topology) const { text_.keep(key, to_text(topology)); }

}  // namespace thole::host
