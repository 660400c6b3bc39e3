#include "host/gpu/file/shorthand.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/text.hpp"

namespace thole::host {

namespace {

using model::LinkKind;
using model::Vendor;

struct Part {
  const char* word;
  Vendor vendor;
  const char* model;          // as the driver names it
  std::uint64_t memory_mib;   // as the driver reports it
  LinkKind fabric;            // between any two GPUs; sys: none but PCIe
  int links;
};

// Totals as nvidia-smi, rocm-smi and xpu-smi print them (with ECC on where the part ships so).
constexpr Part parts[] = {
    {"A100", Vendor::nvidia, "NVIDIA A100-SXM4-80GB", 81920, LinkKind::nvlink, 12},
    {"A100-40", Vendor::nvidia, "NVIDIA A100-SXM4-40GB", 40960, LinkKind::nvlink, 12},
    {"A100-PCIE", Vendor::nvidia, "NVIDIA A100 80GB PCIe", 81920, LinkKind::sys, 0},
    {"A30", Vendor::nvidia, "NVIDIA A30", 24576, LinkKind::sys, 0},
    {"A40", Vendor::nvidia, "NVIDIA A40", 46068, LinkKind::sys, 0},
    {"A10", Vendor::nvidia, "NVIDIA A10", 23028, LinkKind::sys, 0},
    {"A6000", Vendor::nvidia, "NVIDIA RTX A6000", 49140, LinkKind::sys, 0},
    {"B200", Vendor::nvidia, "NVIDIA B200", 183359, LinkKind::nvlink, 18},
    {"GTX1080Ti", Vendor::nvidia, "NVIDIA GeForce GTX 1080 Ti", 11264, LinkKind::sys, 0},
    {"H100", Vendor::nvidia, "NVIDIA H100 80GB HBM3", 81559, LinkKind::nvlink, 18},
    {"H200", Vendor::nvidia, "NVIDIA H200", 143771, LinkKind::nvlink, 18},
    {"L4", Vendor::nvidia, "NVIDIA L4", 23034, LinkKind::sys, 0},
    {"L40S", Vendor::nvidia, "NVIDIA L40S", 46068, LinkKind::sys, 0},
    {"P100", Vendor::nvidia, "Tesla P100-PCIE-16GB", 16384, LinkKind::sys, 0},
    {"RTX2080Ti", Vendor::nvidia, "NVIDIA GeForce RTX 2080 Ti", 11264, LinkKind::sys, 0},
    {"RTX3090", Vendor::nvidia, "NVIDIA GeForce RTX 3090", 24576, LinkKind::sys, 0},
    {"RTX4090", Vendor::nvidia, "NVIDIA GeForce RTX 4090", 24564, LinkKind::sys, 0},
    {"RTX5090", Vendor::nvidia, "NVIDIA GeForce RTX 5090", 32607, LinkKind::sys, 0},
    {"RTX6000Ada", Vendor::nvidia, "NVIDIA RTX 6000 Ada Generation", 49140, LinkKind::sys, 0},
    {"T4", Vendor::nvidia, "Tesla T4", 15360, LinkKind::sys, 0},
    {"V100", Vendor::nvidia, "Tesla V100-PCIE-32GB", 32768, LinkKind::sys, 0},
    {"V100-16", Vendor::nvidia, "Tesla V100-PCIE-16GB", 16384, LinkKind::sys, 0},
    {"MI210", Vendor::amd, "AMD Instinct MI210", 65520, LinkKind::sys, 0},
    {"MI250X", Vendor::amd, "AMD Instinct MI250X", 65520, LinkKind::xgmi, 1},
    {"MI300X", Vendor::amd, "AMD Instinct MI300X", 196592, LinkKind::xgmi, 1},
    {"Max1100", Vendor::intel, "Intel(R) Data Center GPU Max 1100", 49152, LinkKind::sys, 0},
    {"Max1550", Vendor::intel, "Intel(R) Data Center GPU Max 1550", 131072, LinkKind::sys, 0},
    {"ArcA770", Vendor::intel, "Intel(R) Arc(TM) A770 Graphics", 16288, LinkKind::sys, 0},
};

constexpr unsigned cores_per_gpu = 8;
constexpr std::uint64_t host_memory_mib_per_gpu = 65536;

// 64 bits that depend on every byte of a seed (FNV-1a, then splitmix64's finaliser): identities must not change between
// versions of a standard library.
std::uint64_t hash(std::string_view seed) {
  std::uint64_t h = fnv1a(seed);
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
  h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
  return h ^ (h >> 31);
}

std::string make_uuid(const Part& part, unsigned index) {
  std::string seed = fmt::format("{} {}", part.model, index);
  std::uint64_t high = hash(seed), low = hash(seed + " low");
  if (part.vendor == Vendor::nvidia)
    return fmt::format("GPU-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, high >> 16 & 0xffff, high & 0xffff, low >> 48,
                       low & 0xffffffffffff);
  if (part.vendor == Vendor::amd) return fmt::format("GPU-{:016x}", high);  // the form ROCR_VISIBLE_DEVICES takes
  return "";                                                                // known by PCI address
}

// One package up to four GPUs, two beyond; Linux numbers the second threads after all the first ones.
struct Layout {
  unsigned gpus, nodes;
  unsigned node_of(unsigned gpu) const { return gpu * nodes / gpus; }
  unsigned cores() const { return gpus * cores_per_gpu; }
};

void add_cpus(const Layout& layout, model::Machine& machine) {
  for (unsigned cpu = 0; cpu < 2 * layout.cores(); ++cpu) {
    unsigned core = cpu % layout.cores();
    int node = static_cast<int>(layout.node_of(core / cores_per_gpu));
    machine.cpus.push_back({.id = cpu, .core = static_cast<int>(core), .l3 = static_cast<int>(core / cores_per_gpu),
                            .numa = node,
                            .package = node});
  }
  for (unsigned node = 0; node < layout.nodes; ++node) {
    std::uint64_t gpus = 0;
    for (unsigned gpu = 0; gpu < layout.gpus; ++gpu) gpus += layout.node_of(gpu) == node ? 1 : 0;
    machine.numa.push_back({.id = static_cast<int>(node), .memory_mib = gpus * host_memory_mib_per_gpu});
  }
}

model::CpuSet cpus_of_node(const model::Machine& machine, int node) {
  model::CpuSet cpus;
  for (const model::Cpu& cpu : machine.cpus)
    if (cpu.numa == node) cpus.add(cpu.id);
  return cpus;
}

model::Gpu make_gpu(const Part& part, const Layout& layout, unsigned index, const model::Machine& machine) {
  int node = static_cast<int>(layout.node_of(index));
  model::Gpu gpu;
  gpu.uuid = make_uuid(part, index);
  gpu.vendor = part.vendor;
  gpu.model = part.model;
  gpu.pci = model::PciAddress{.domain = 0, .bus = static_cast<std::uint8_t>(1 + 3 * index), .device = 0, .function = 0};
  gpu.minor = static_cast<int>(part.vendor == Vendor::nvidia ? index : 128 + index);
  gpu.memory_mib = part.memory_mib;
  gpu.numa = node;
  gpu.near_cpus.node = gpu.near_cpus.package = cpus_of_node(machine, node);
  gpu.display = false;
  if (part.vendor == Vendor::nvidia) gpu.compute_mode = std::string("default");
  gpu.use.memory_used_mib = std::uint64_t{0};
  gpu.use.utilization_percent = 0.0;
  gpu.use.temperature_c = 30.0;
  gpu.use.processes = std::vector<model::GpuProcess>{};
  return gpu;
}

void add_links(const Part& part, const Layout& layout, std::vector<model::Gpu>& gpus) {
  for (unsigned a = 0; a < gpus.size(); ++a)
    for (unsigned b = 0; b < gpus.size(); ++b) {
      if (a == b) continue;
      model::Link link{.to = *gpus[b].pci, .kind = part.fabric, .count = std::nullopt, .weight = std::nullopt};
      if (part.links > 0) link.count = part.links;
      else if (layout.node_of(a) == layout.node_of(b)) link.kind = a / 2 == b / 2 ? LinkKind::phb : LinkKind::node;
      gpus[a].links.push_back(link);
    }
}

const Part* find_part(std::string_view word) {
  for (const Part& part : parts)
    if (to_lower(part.word) == to_lower(word)) return &part;
  return nullptr;
}

}  // namespace

std::vector<std::string> shorthand_models() {
  std::vector<std::string> words;
  for (const Part& part : parts) words.push_back(part.word);
  return words;
}

std::optional<model::Machine> shorthand_machine(std::string_view word) {
  std::size_t x = word.find_first_of("xX");
  auto count = x == std::string_view::npos ? std::nullopt : parse_u64(word.substr(0, x));
  if (!count || x + 1 == word.size()) return std::nullopt;
  const Part* part = find_part(word.substr(x + 1));
  if (part == nullptr) {
    std::vector<std::string> known = shorthand_models();
    auto near = nearest(word.substr(x + 1), known);
    throw Error(ErrorCode::usage, "no such GPU model for a simulated machine")
        .about(printable(word, 80))
        .hint((near ? fmt::format("nearest: {}x{}; ", *count, *near) : "") + "known: " + join(known, ", "));
  }
  if (*count < 1 || *count > 64)
    throw Error(ErrorCode::usage, "a simulated machine has 1 to 64 GPUs")
        .about(printable(word, 80))
        .hint("--machine none has none");

  Layout layout{.gpus = static_cast<unsigned>(*count), .nodes = *count > 4 ? 2u : 1u};
  model::Machine machine;
  machine.name = fmt::format("{}x{}", *count, part->word);
  add_cpus(layout, machine);
  for (unsigned index = 0; index < layout.gpus; ++index) machine.gpus.push_back(make_gpu(*part, layout, index, machine));
  add_links(*part, layout, machine.gpus);
  return machine;
}

}  // namespace thole::host
