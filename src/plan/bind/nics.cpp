#include "plan/bind/nics.hpp"

#include <algorithm>
#include <tuple>

namespace thole::plan {

using model::Gpu;
using model::LinkKind;
using model::Nic;

namespace {

int distance(LinkKind kind) {
  switch (kind) {
    case LinkKind::pix: return 1;
    case LinkKind::pxb: return 2;
    case LinkKind::phb: return 3;
    case LinkKind::node: return 4;
    case LinkKind::sys: return 5;
    default: return 0;                         // a link of its own
  }
}

int distance(const Gpu& gpu, const Nic& nic) {
  int least = nic.numa && nic.numa == gpu.numa ? distance(LinkKind::node) : distance(LinkKind::sys);
  if (!nic.pci) return least;
  bool listed = false;
  for (const model::Link& link : gpu.links) {
    if (link.to != *nic.pci) continue;
    least = listed ? std::min(least, distance(link.kind)) : distance(link.kind);
    listed = true;
  }
  return least;
}

std::vector<const Nic*> worth_using(const model::Machine& machine) {
  constexpr double least_share = 0.25;
  double best = 0;
  for (const Nic& nic : machine.nics) best = std::max(best, nic.rate_gbps.value_or(0));
  std::vector<const Nic*> nics;
  for (const Nic& nic : machine.nics)
    if (!nic.name.empty() && nic.rate_gbps.value_or(best) >= best * least_share) nics.push_back(&nic);
  return nics;
}

}  // namespace

void choose_nics(const model::Machine& machine, model::NicMode mode, model::BindingPlan& plan) {
  if (mode == model::NicMode::none) return;
  const std::vector<const Nic*> nics = worth_using(machine);
  std::vector<std::size_t> assigned(nics.size());
  for (model::RankPlan& rank : plan.ranks) {
    std::vector<bool> taken(nics.size(), mode == model::NicMode::all);
    for (const std::size_t gpu : rank.gpus) {
      if (mode == model::NicMode::all || nics.empty()) break;
      const auto merit = [&](std::size_t n) {
        const bool same_node = nics[n]->numa && nics[n]->numa == machine.gpus[gpu].numa;
        return std::tuple(distance(machine.gpus[gpu], *nics[n]), !same_node, -nics[n]->rate_gbps.value_or(0), assigned[n],
                          nics[n]->name);
      };
      std::size_t best = 0;
      for (std::size_t n = 1; n < nics.size(); ++n)
        if (merit(n) < merit(best)) best = n;
      ++assigned[best];
      taken[best] = true;
    }
    if (rank.gpus.empty()) continue;
    for (std::size_t n = 0; n < nics.size(); ++n)
      if (taken[n]) rank.nics.push_back(nics[n]->name);
  }
  for (std::size_t n = 0; n < nics.size(); ++n)
    if (std::any_of(plan.ranks.begin(), plan.ranks.end(), [&](const model::RankPlan& rank) {
          return std::find(rank.nics.begin(), rank.nics.end(), nics[n]->name) != rank.nics.end();
        }))
      plan.nics.push_back(nics[n]->name);
}

}  // namespace thole::plan
