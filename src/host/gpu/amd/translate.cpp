#include "host/gpu/amd/translate.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "base/text.hpp"

namespace thole::host::amd {

namespace {

model::PciAddress address_of(const KfdNode& node) {
  model::PciAddress address;
  address.domain = static_cast<std::uint32_t>(node.domain);
  address.bus = static_cast<std::uint8_t>(node.location >> 8 & 0xff);
  address.device = static_cast<std::uint8_t>(node.location >> 3 & 0x1f);
  address.function = static_cast<std::uint8_t>(node.location & 7);
  return address;
}

// Equal for the partitions of one GPU, different for everything else.
using Slot = std::tuple<std::uint64_t, std::uint8_t, std::uint8_t, std::uint64_t>;
Slot slot_of(const KfdNode& node) {
  model::PciAddress address = address_of(node);
  return {node.domain, address.bus, address.device, node.unique_id};
}

AmdGpu whole_gpu(const KfdNode& node) {
  AmdGpu entry;
  entry.node = node.node;
  entry.kfd_id = node.gpu_id;
  entry.device_id = node.device_id;
  entry.gfx_version = node.gfx_version;
  model::Gpu& gpu = entry.gpu;
  gpu.vendor = model::Vendor::amd;
  gpu.pci = address_of(node);
  if (node.unique_id != 0) gpu.uuid = fmt::format("GPU-{:016x}", node.unique_id);
  if (node.render_minor) gpu.minor = static_cast<int>(*node.render_minor);
  if (node.memory_bytes) gpu.memory_mib = *node.memory_bytes >> 20;
  return entry;
}

// The members of one slot become partitions 0, 1, … of its lowest function, in the order of their locations.
void number_partitions(const std::vector<KfdNode>& nodes, std::vector<AmdGpu>& gpus) {
  std::map<Slot, std::vector<std::size_t>> slots;
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].unique_id != 0) slots[slot_of(nodes[i])].push_back(i);
  for (auto& [slot, members] : slots) {
    if (members.size() < 2) continue;
    std::sort(members.begin(), members.end(), [&](auto a, auto b) { return nodes[a].location < nodes[b].location; });
    std::vector<std::uint64_t> ids;
    std::uint64_t memory_mib = 0;
    for (std::size_t member : members) {
      if (gpus[member].kfd_id) ids.push_back(*gpus[member].kfd_id);
      memory_mib += gpus[member].gpu.memory_mib.value_or(0);
    }
    for (std::size_t part = 0; part < members.size(); ++part) {
      AmdGpu& entry = gpus[members[part]];
      entry.partitioned = true;
      entry.card_kfd_ids = ids;
      entry.card_memory_mib = memory_mib;
      entry.gpu.pci = address_of(nodes[members.front()]);
      entry.gpu.part = static_cast<int>(part);
      entry.gpu.uuid.clear();
    }
  }
}

std::optional<int> number_of_links(const KfdLink& link) {
  if (!link.min_bandwidth || !link.max_bandwidth || *link.min_bandwidth == 0) return std::nullopt;
  std::uint64_t count = *link.max_bandwidth / *link.min_bandwidth;
  return count > 0 && count < 1000 ? std::optional(static_cast<int>(count)) : std::nullopt;
}

bool better(const model::Link& a, const model::Link& b) {
  return a.weight.value_or(1 << 20) < b.weight.value_or(1 << 20);
}

void link_by_xgmi(const std::vector<KfdNode>& nodes, std::vector<AmdGpu>& gpus) {
  std::map<unsigned, model::PciAddress> address;
  for (std::size_t i = 0; i < nodes.size(); ++i) address[nodes[i].node] = *gpus[i].gpu.pci;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::map<model::PciAddress, model::Link> best;
    for (const KfdLink& raw : nodes[i].links) {
      auto to = address.find(raw.to);
      if (raw.type != link_type_xgmi || to == address.end() || to->second == address[nodes[i].node]) continue;
      model::Link link;
      link.to = to->second;
      link.kind = model::LinkKind::xgmi;
      link.count = number_of_links(raw);
      if (raw.weight && *raw.weight < 1 << 20) link.weight = static_cast<int>(*raw.weight);
      auto [known, fresh] = best.emplace(link.to, link);
      if (!fresh && better(link, known->second)) known->second = link;
    }
    for (auto& [to, link] : best) gpus[i].gpu.links.push_back(std::move(link));
  }
}

}  // namespace

std::vector<AmdGpu> translate(const std::vector<KfdNode>& nodes) {
  std::vector<AmdGpu> gpus;
  for (const KfdNode& node : nodes) gpus.push_back(whole_gpu(node));
  number_partitions(nodes, gpus);
  link_by_xgmi(nodes, gpus);
  std::stable_sort(gpus.begin(), gpus.end(), [](const AmdGpu& a, const AmdGpu& b) {
    return std::pair(*a.gpu.pci, a.gpu.part.value_or(0)) < std::pair(*b.gpu.pci, b.gpu.part.value_or(0));
  });
  return gpus;
}

bool is_integrated(std::uint64_t gfx_version) {
  // Raven, Picasso, Renoir; Van Gogh, Rembrandt, Raphael, Mendocino; Phoenix; Strix Point, Krackan (gfx1150, 1152, 1153).
  constexpr std::array<std::uint64_t, 11> built_in{90002,  90009,  90012,  100303, 100305, 100306,
                                                   100307, 110003, 110500, 110502, 110503};
  return std::find(built_in.begin(), built_in.end(), gfx_version) != built_in.end();
}

std::string name_in_ids(std::string_view ids, std::uint64_t device, std::uint64_t revision) {
  for (std::string_view line : split_lines(ids)) {
    if (line.starts_with('#')) continue;
    auto first = line.find(','), second = first == line.npos ? first : line.find(',', first + 1);
    if (second == line.npos) continue;
    if (parse_u64(trim(line.substr(0, first)), 16) != device) continue;
    if (parse_u64(trim(line.substr(first + 1, second - first - 1)), 16) != revision) continue;
    return std::string(trim(line.substr(second + 1)));
  }
  return "";
}

std::string fallback_name(std::uint64_t device) {
  struct Name {
    std::uint64_t device;
    const char* name;
  };
  // As libdrm's newer lists and the PCI ID database name them; only what is bought to compute on.
  static constexpr Name names[] = {
      {0x738c, "AMD Instinct MI100"},     {0x738e, "AMD Instinct MI100"},          {0x7408, "AMD Instinct MI250X"},
      {0x740c, "AMD Instinct MI250X / MI250"}, {0x740f, "AMD Instinct MI210"},     {0x74a0, "AMD Instinct MI300A"},
      {0x74a1, "AMD Instinct MI300X"},    {0x74a2, "AMD Instinct MI308X"},         {0x74a5, "AMD Instinct MI325X"},
      {0x74a9, "AMD Instinct MI300X HF"}, {0x75a0, "AMD Instinct MI350X"},         {0x75a3, "AMD Instinct MI355X"},
  };
  for (const Name& known : names)
    if (known.device == device) return known.name;
  return fmt::format("AMD GPU [1002:{:04x}]", device);
}

}  // namespace thole::host::amd
