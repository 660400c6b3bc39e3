#include "plan/bind/effect.hpp"

#include <algorithm>
#include <cstring>

#include "base/text.hpp"

namespace thole::plan {

using model::Binding;
using model::CpuSet;
using model::MemoryPolicy;
using model::RankPlan;

namespace {

std::string list_of(const std::vector<int>& nodes) {
  CpuSet set;                                    // the same form
  for (int node : nodes) set.add(static_cast<unsigned>(node));
  return set.to_string();
}

std::string named(std::string_view what, const std::vector<int>& nodes) {
  return fmt::format("{}{} {}", what, nodes.size() == 1 ? "" : "s", list_of(nodes));
}

std::string named(std::string_view what, const CpuSet& cpus) {
  return fmt::format("{}{} {}", what, cpus.size() == 1 ? "" : "s", cpus.to_string());
}

void ask_cpus(const RankPlan& rank, const HostLimits& host, Effect& effect) {
  if (!rank.bound) return;
  const CpuSet here = host.simulated ? rank.cpus & host.cpus : rank.cpus;
  effect.absent_cpus = rank.cpus - here;
  if (!here.empty()) effect.binding.cpus = here;
}

void ask_memory(const RankPlan& rank, const HostLimits& host, Effect& effect) {
  if (rank.memory == MemoryPolicy::first_touch || rank.memory_nodes.empty()) return;
  if (!host.no_memory_policy.empty()) {
    effect.lacks.push_back("the memory policy is not set: " + host.no_memory_policy);
    return;
  }
  std::vector<int> here, lacking;
  for (int node : rank.memory_nodes) {
    const bool allowed = std::find(host.memory_nodes.begin(), host.memory_nodes.end(), node) != host.memory_nodes.end();
    (allowed ? here : lacking).push_back(node);
  }
  if (host.simulated) effect.absent_nodes = lacking;
  else if (!lacking.empty())
    effect.lacks.push_back(fmt::format("{} not allowed here, only {}: {}", named("memory node", lacking),
                                       list_of(host.memory_nodes),
                                       here.empty() ? "the memory policy is not set" : "it is set on " + named("node", here)));
  if (here.empty()) return;
  effect.binding.memory = rank.memory;
  effect.binding.memory_nodes = here;
}

// A card goes by the name of its RDMA device where it has one; these are names of network interfaces, as the kernel and systemd
// (predictable names) give them: cards that UCX's and NCCL's RDMA transports cannot use.
bool has_rdma(const std::string& nic) {
  for (const char* interface : {"en", "eth", "wl", "ww", "hsn", "bond", "usb"})
    if (nic.starts_with(interface)) return false;
  return true;
}

std::vector<std::string> rdma_of(std::vector<std::string> nics) {
  std::erase_if(nics, [](const std::string& nic) { return !has_rdma(nic); });
  return nics;
}

class Offers {
 public:
  Offers(const Environment& environment, Effect& effect) : environment_(environment), effect_(effect) {}

  // A value that the user has set, even an empty one, is his.
  void offer(const std::string& name, const std::string& value) {
    const auto own = environment_.find(name);
    if (own == environment_.end()) effect_.set[name] = value;
    else if (own->second != value) effect_.kept.push_back(fmt::format("{}={} was set already and is kept", name, own->second));
  }

 private:
  const Environment& environment_;
  Effect& effect_;
};

}  // namespace

Effect effect(const RankPlan& rank, const model::BindingPlan& plan, const HostLimits& host, const Environment& environment) {
  Effect effect;
  ask_cpus(rank, host, effect);
  ask_memory(rank, host, effect);
  Offers offers(environment, effect);
  // UCX wants the port, too. For NCCL "=" makes the names exact: else mlx5_1 is mlx5_10 as well.
  const auto own = rdma_of(rank.nics), everyones = rdma_of(plan.nics);
  if (!own.empty()) offers.offer("UCX_NET_DEVICES", join(own, ":1,") + ":1");
  if (!everyones.empty()) offers.offer("NCCL_IB_HCA", "=" + join(everyones, ","));
  if (rank.threads) {
    for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"})
      offers.offer(name, std::to_string(*rank.threads));
  }
  // Intel's OpenMP would pin its threads anew, and take back in every forked child what the process was bound to.
  if (effect.binding.cpus) offers.offer("KMP_AFFINITY", "disabled");
  return effect;
}

std::vector<std::string> differences(const Binding& asked, const model::Bound& bound) {
  std::vector<std::string> found;
  const auto refused = [](int reason) { return std::string(std::strerror(reason)); };
  if (asked.cpus) {
    const std::string wanted = named("CPU", *asked.cpus);
    if (bound.cpus_refused != 0)
      found.push_back(fmt::format("{} refused: {}; the command has {}", wanted, refused(bound.cpus_refused),
                                  bound.got.cpus ? named("CPU", *bound.got.cpus) : "the CPUs it had"));
    else if (!bound.got.cpus)
      found.push_back(fmt::format("{} asked for; what the kernel gave cannot be read", wanted));
    else if (*bound.got.cpus != *asked.cpus)
      found.push_back(fmt::format("{} asked for, the kernel gave {}: the others are offline, or outside of the cpuset", wanted,
                                  bound.got.cpus->to_string()));
  }
  if (asked.memory && *asked.memory != MemoryPolicy::first_touch) {
    const std::string wanted =
        fmt::format("memory policy {} on {}", to_string(*asked.memory), named("node", asked.memory_nodes));
    if (bound.memory_refused != 0)
      found.push_back(fmt::format("{} refused: {}{}", wanted, refused(bound.memory_refused),
                                  bound.memory_refused == EPERM ? " (in a container it takes --cap-add SYS_NICE)" : ""));
    else if (!bound.got.memory)
      found.push_back(fmt::format("{} asked for; what the kernel gave cannot be read", wanted));
    else if (*bound.got.memory != *asked.memory || bound.got.memory_nodes != asked.memory_nodes)
      found.push_back(fmt::format("{} asked for, the kernel gave {} on {}", wanted, to_string(*bound.got.memory),
                                  named("node", bound.got.memory_nodes)));
  }
  return found;
}

}  // namespace thole::plan
