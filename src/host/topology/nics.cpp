#include "host/topology/nics.hpp"

#include <map>

#include "base/text.hpp"
#include "host/pci/devices.hpp"

namespace thole::host {

namespace {

const std::string infiniband = "/sys/class/infiniband/", network = "/sys/class/net/";

std::optional<double> infiniband_rate(const Tree& tree, const std::string& name) {
  const std::string ports = infiniband + name + "/ports/";
  std::optional<double> best;
  for (unsigned port : tree.numbered(ports, "")) {
    const std::string directory = ports + std::to_string(port);
    // A port that is down still has a rate, that of a link nobody negotiated: "4: ACTIVE", "1: DOWN".
    if (auto state = tree.text(directory + "/state"); state && !state->ends_with("ACTIVE")) continue;
    auto text = tree.text(directory + "/rate");
    if (auto rate = text ? parse_infiniband_rate(*text) : std::nullopt; rate && (!best || *rate > *best)) best = rate;
  }
  return best;
}

// In Mb/s; the kernel answers EINVAL or -1 while the link is down, and then the rate is unknown.
std::optional<double> ethernet_rate(const Tree& tree, const std::string& name) {
  auto megabits = tree.number(network + name + "/speed");
  if (!megabits || *megabits == 0 || *megabits >= UINT32_MAX) return std::nullopt;
  return static_cast<double>(*megabits) / 1000.0;
}

using ByAddress = std::map<model::PciAddress, model::Nic>;

template <class Rate>
void collect(const Tree& tree, const std::string& directory, Rate rate, ByAddress& found) {
  for (const std::string& name : tree.names(directory)) {
    auto path = tree.real(directory + name);
    auto address = path ? pci_address_in(*path) : std::nullopt;
    if (!address || found.contains(*address)) continue;
    auto device = pci_device(tree, *address);
    if (!device || device->virtual_function) continue;
    model::Nic& nic = found[*address];
    nic.name = name;
    nic.pci = address;
    nic.numa = device->numa;
    nic.rate_gbps = rate(tree, name);
  }
}

}  // namespace

std::optional<double> parse_infiniband_rate(std::string_view text) {
  auto unit = text.find(" Gb/sec");
  if (unit == text.npos) return std::nullopt;
  auto rate = parse_double(trim(text.substr(0, unit)));
  return rate && *rate > 0 ? rate : std::nullopt;
}

std::optional<double> nic_rate(const Tree& tree, const std::string& name) {
  return tree.exists(infiniband + name) ? infiniband_rate(tree, name) : ethernet_rate(tree, name);
}

std::vector<model::Nic> read_nics(const Tree& tree) {
  ByAddress found;
  collect(tree, infiniband, infiniband_rate, found);
  collect(tree, network, ethernet_rate, found);
  std::vector<model::Nic> nics;
  for (auto& [address, nic] : found) nics.push_back(std::move(nic));
  return nics;
}

}  // namespace thole::host
