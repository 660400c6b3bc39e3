// Texts of the kernel's files about CPUs, AMD and Intel GPUs: read, or taken for absent, never believed blindly. The first byte
// chooses.
#include <set>

#include "fuzz.hpp"
#include "host/drm/clients.hpp"
#include "host/gpu/amd/translate.hpp"
#include "host/topology/nics.hpp"
#include "host/sysfs/tree.hpp"

using namespace thole::host;
using thole::fuzz::check;

namespace {

// Nodes are separated by blank lines; each text serves as the node and as its link.
void kfd_nodes_of(std::string_view text) {
  std::vector<amd::KfdNode> nodes;
  while (!text.empty() && nodes.size() < 32) {
    auto end = text.find("\n\n");
    std::string_view part = text.substr(0, end);
    amd::KfdNode node = amd::parse_kfd_properties(part);
    node.node = static_cast<unsigned>(nodes.size());
    node.links.push_back(amd::parse_kfd_link(part));
    nodes.push_back(std::move(node));
    text = end == text.npos ? "" : text.substr(end + 2);
  }
  const auto gpus = amd::translate(nodes);
  check(gpus.size() == nodes.size(), "every node is a GPU");
  for (const amd::AmdGpu& entry : gpus) {
    check(entry.gpu.pci.has_value(), "every GPU has an address");
    check(entry.gpu.uuid.empty() || entry.gpu.uuid.size() == 20, "a UUID is GPU- and 16 digits, or none");
    check(!entry.gpu.part || entry.gpu.uuid.empty(), "a partition is not named by what all partitions share");
    std::set<thole::model::PciAddress> linked;
    for (const auto& link : entry.gpu.links) {
      check(link.to != *entry.gpu.pci, "no GPU is linked to itself");
      check(linked.insert(link.to).second, "one link for each other GPU");
    }
  }
}

void fdinfo_of(std::string_view text) {
  auto client = parse_drm_fdinfo(text);
  if (!client) return;
  check(!client->driver.empty(), "a client has a driver");
  client->pid = 1;
  check(as_processes({*client}).size() <= 1, "one client is at most one process");
}

}  // namespace

int fuzz_one(const std::uint8_t* data, std::size_t size) {
  thole::fuzz::Input input(data, size);
  switch (input.byte() % 5) {
    case 0: kfd_nodes_of(input.rest()); break;
    case 1: fdinfo_of(input.rest()); break;
    case 2:
      if (auto cpus = parse_cpu_mask(input.rest()); cpus && !cpus->empty())
        check(cpus->to_vector().back() < 32 * 1024, "a mask names no more CPUs than it has bits");
      break;
    case 3: check(amd::name_in_ids(input.rest(), 0x740f, 2).size() <= input.rest().size(), "a name is part of the list"); break;
    case 4:
      if (auto rate = parse_infiniband_rate(input.rest())) check(*rate > 0, "a rate is positive");
      break;
  }
  return 0;
}
