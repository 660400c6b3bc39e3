#include "plan/place/links.hpp"

#include <algorithm>
#include <numeric>

#include "base/text.hpp"

namespace thole::plan {

using model::Gpu;
using model::LinkKind;

namespace {

constexpr int same_board = 60, single_switch = 50, several_switches = 40, host_bridge = 30, same_node = 20, across = 10;

int pcie_class(LinkKind kind) {
  switch (kind) {
    case LinkKind::pix: return single_switch;
    case LinkKind::pxb: return several_switches;
    case LinkKind::phb: return host_bridge;
    case LinkKind::node: return same_node;
    case LinkKind::sys: return across;
    default: return 0;
  }
}

// Both ends list a link; where they differ the slower one counts, and one end alone is believed.
int agreed(int a, int b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

}  // namespace

void Links::note(std::size_t a, std::size_t b, const model::Link& link) {
  constexpr int direct_weight = 15;            // KFD: one xGMI hop
  Pair& pair = seen_[a * size_ + b];
  const int count = std::clamp(link.count.value_or(1), 0, 64);
  switch (link.kind) {
    case LinkKind::nvlink: pair.nvlinks += 100 * count; break;
    case LinkKind::xgmi:
      pair.xgmi += 100 * count * direct_weight / std::clamp(link.weight.value_or(direct_weight), direct_weight, 1500);
      break;
    case LinkKind::c2c: pair.c2c += 100 * count; break;
    case LinkKind::nvswitch: break;            // see fabric_
    default: pair.pcie = std::max(pair.pcie, pcie_class(link.kind));
  }
}

Links::Links(const model::Machine& machine, const std::vector<model::Unit>& units, const std::vector<std::size_t>& chosen)
    : size_(chosen.size()), seen_(size_ * size_), fabric_(size_), scores_(size_ * size_), pcie_(size_ * size_),
      same_gpu_(size_ * size_) {
  std::vector<const Gpu*> gpus;
  std::vector<std::pair<model::PciAddress, std::size_t>> addresses;
  gpus.reserve(size_);
  addresses.reserve(size_);
  for (const std::size_t unit : chosen) {
    const Gpu& gpu = units[unit].gpu_of(machine);
    if (gpu.pci) addresses.emplace_back(*gpu.pci, gpus.size());
    gpus.push_back(&gpu);
  }
  std::sort(addresses.begin(), addresses.end());
  for (std::size_t a = 0; a < size_; ++a)
    for (const model::Link& link : gpus[a]->links) {
      if (link.kind == LinkKind::nvswitch) fabric_[a] = std::max(fabric_[a], std::clamp(link.count.value_or(1), 1, 64));
      auto it = std::lower_bound(addresses.begin(), addresses.end(), link.to,
                                 [](const auto& address, const model::PciAddress& to) { return address.first < to; });
      for (; it != addresses.end() && it->first == link.to; ++it) note(a, it->second, link);
    }
  for (std::size_t a = 0; a < size_; ++a)
    for (std::size_t b = a + 1; b < size_; ++b) {  // all is the same from both ends
      const std::size_t ab = a * size_ + b, ba = b * size_ + a;
      const Gpu &x = *gpus[a], &y = *gpus[b];
      const Pair &there = seen_[ab], &back = seen_[ba];
      const bool same = &x == &y || (x.pci && x.pci == y.pci);
      same_gpu_[ab] = same_gpu_[ba] = same;
      int pcie = agreed(there.pcie, back.pcie);
      if (same) pcie = same_board;
      else if (pcie == 0) pcie = x.numa && x.numa == y.numa ? same_node : across;
      pcie_[ab] = pcie_[ba] = pcie;
      const int fabric = same ? 0 : 100 * std::min(fabric_[a], fabric_[b]);
      scores_[ab] = scores_[ba] = agreed(there.nvlinks, back.nvlinks) + agreed(there.xgmi, back.xgmi) +
                                  agreed(there.c2c, back.c2c) + fabric + pcie;
    }
}

bool Links::any_fast() const {
  return std::any_of(scores_.begin(), scores_.end(), [](int score) { return score >= 100; });
}

long Links::sum() const { return std::accumulate(scores_.begin(), scores_.end(), 0L) / 2; }

std::string Links::name(std::size_t a, std::size_t b) const {
  if (same_gpu_[a * size_ + b]) return "same GPU";
  const Pair &there = seen_[a * size_ + b], &back = seen_[b * size_ + a];
  const int nvlinks = agreed(there.nvlinks, back.nvlinks) / 100 + std::min(fabric_[a], fabric_[b]);
  if (nvlinks > 0) return fmt::format("NV{}", nvlinks);
  if (agreed(there.xgmi, back.xgmi)) return "XGMI";
  if (agreed(there.c2c, back.c2c)) return "C2C";
  switch (pcie_[a * size_ + b]) {
    case single_switch: return "PIX";
    case several_switches: return "PXB";
    case host_bridge: return "PHB";
    case same_node: return "NODE";
    default: return "SYS";
  }
}

}  // namespace thole::plan
