// The matrix of `nvidia-smi topo -m`: tabs between cells, a row for each GPU with its near CPUs and node, a row for each NIC.
// Newer drivers have a last column, GPU NUMA ID, which stands behind an empty one: the node that a GPU's own memory is to the
// host.
#include "base/text.hpp"
#include "cli/show/render.hpp"
#include "cli/show/terminal.hpp"
#include "cli/show/topo.hpp"
#include "model/json_null.hpp"

namespace thole::cli {

namespace {

constexpr std::string_view legend = R"(
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the interconnect between NUMA nodes
  NODE = Connection traversing PCIe as well as the interconnect between PCIe host bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe host bridge (typically the CPU)
  PXB  = Connection traversing several PCIe bridges (without a PCIe host bridge)
  PIX  = Connection traversing at most one PCIe bridge
  NV#  = Connection over # NVLinks
  XGMI = Connection over xGMI (AMD Infinity Fabric)
  C2C  = Connection over NVLink-C2C
  N/A  = Not known
)";

std::string cell(const app::Joins& joins, std::size_t a, std::size_t b) { return a == b ? " X " : joins.label(a, b); }

std::string device(const model::Machine& machine, std::size_t index) {
  const std::size_t gpus = machine.gpus.size();
  return index < gpus ? fmt::format("GPU{}", index) : fmt::format("NIC{}", index - gpus);
}

std::string node(std::optional<int> numa) { return numa ? std::to_string(*numa) : "N/A"; }

}  // namespace

std::string render_matrix(const model::Machine& machine, std::size_t columns) {
  const app::Joins joins(machine);
  std::string text;
  for (std::size_t i = 0; i < joins.size(); ++i) text += "\t" + device(machine, i);
  text += "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n";
  for (std::size_t i = 0; i < joins.size(); ++i) {
    text += device(machine, i);
    for (std::size_t j = 0; j < joins.size(); ++j) text += "\t" + cell(joins, i, j);
    if (i < machine.gpus.size()) {
      const model::Gpu& gpu = machine.gpus[i];
      text += fmt::format("\t{}\t{}\t\t{}", gpu.near_cpus.node ? gpu.near_cpus.node->to_string() : "N/A", node(gpu.numa),
                          node(gpu.memory_numa));
    }
    text += "\n";
  }
  text += columns == 0 ? std::string(legend) : fold(legend, columns);
  if (machine.nics.empty()) return text;
  text += "\nNIC Legend:\n\n";
  for (std::size_t n = 0; n < machine.nics.size(); ++n)
    text += fmt::format("  NIC{}: {}\n", n, printable(machine.nics[n].name, 60));
  return text;
}

model::Json matrix_to_json(const model::Machine& machine) {
  const app::Joins joins(machine);
  model::Json json = {{"schema", "thole/matrix/1"}, {"devices", model::Json::array()}, {"joins", model::Json::array()}};
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) {
    const model::Gpu& gpu = machine.gpus[g];
    json["devices"].push_back({{"name", device(machine, g)}, {"pci", model::or_null(gpu.pci)},
                               {"numa", model::or_null(gpu.numa)},
                               {"near_cpus", model::or_null(gpu.near_cpus.node)},
                               {"memory_numa", model::or_null(gpu.memory_numa)}});
  }
  for (std::size_t n = 0; n < machine.nics.size(); ++n) {
    const model::Nic& nic = machine.nics[n];
    json["devices"].push_back({{"name", nic.name}, {"pci", model::or_null(nic.pci)}, {"numa", model::or_null(nic.numa)},
                               {"near_cpus", nullptr}, {"memory_numa", nullptr}});
  }
  for (std::size_t i = 0; i < joins.size(); ++i) {
    model::Json row = model::Json::array();
    for (std::size_t j = 0; j < joins.size(); ++j) {
      const std::string label = joins.label(i, j);
      row.push_back(label == "N/A" ? model::Json(nullptr) : model::Json(label));
    }
    json["joins"].push_back(std::move(row));
  }
  return json;
}

}  // namespace thole::cli
