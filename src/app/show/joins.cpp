#include "app/show/joins.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace thole::app {

using model::LinkKind;

namespace {

bool is_fast(LinkKind kind) { return kind < LinkKind::pix; }

// nvswitch, nvlink, xgmi, c2c: where two ways lead to one device, the faster names the join.
int rank(LinkKind kind) {
  switch (kind) {
    case LinkKind::nvswitch: return 4;
    case LinkKind::nvlink: return 3;
    case LinkKind::xgmi: return 2;
    default: return 1;
  }
}

void note(Join& join, const model::Link& link) {
  if (!is_fast(link.kind)) {
    join.pcie = join.pcie ? std::min(*join.pcie, link.kind) : link.kind;
  } else if (!join.fast || rank(link.kind) > rank(*join.fast)) {
    join.fast = link.kind;
    join.count = link.count;
  }
}

template <class T, class Choose>
std::optional<T> agreed(const std::optional<T>& a, const std::optional<T>& b, Choose choose) {
  if (!a || !b) return a ? a : b;
  return choose(*a, *b);
}

constexpr auto smaller = [](auto a, auto b) { return std::min(a, b); };
constexpr auto larger = [](auto a, auto b) { return std::max(a, b); };

using Address = std::optional<model::PciAddress>;

std::vector<Address> addresses_of(const model::Machine& machine) {
  std::vector<Address> addresses;
  for (const model::Gpu& gpu : machine.gpus) addresses.push_back(gpu.pci);
  for (const model::Nic& nic : machine.nics) addresses.push_back(nic.pci);
  return addresses;
}

std::vector<std::optional<int>> nodes_of(const model::Machine& machine) {
  std::vector<std::optional<int>> nodes;
  for (const model::Gpu& gpu : machine.gpus) nodes.push_back(gpu.numa);
  for (const model::Nic& nic : machine.nics) nodes.push_back(nic.numa);
  return nodes;
}

bool one_card(const Address& a, const Address& b) {
  return a && b && a->domain == b->domain && a->bus == b->bus && a->device == b->device;
}

}  // namespace

Joins::Joins(const model::Machine& machine)
    : size_(machine.gpus.size() + machine.nics.size()), joins_(size_ * size_) {
  read_links(machine);
  agree();
  complete_pcie(machine);
}

void Joins::read_links(const model::Machine& machine) {
  std::multimap<Address, std::size_t> devices;  // parts of one GPU share an address
  const std::vector<Address> addresses = addresses_of(machine);
  for (std::size_t i = 0; i < size_; ++i)
    if (addresses[i]) devices.emplace(*addresses[i], i);
  const auto read = [&](std::size_t from, const std::vector<model::Link>& links) {
    for (const model::Link& link : links) {
      const auto [first, last] = devices.equal_range(link.to);
      for (auto to = first; to != last; ++to)
        if (to->second != from) note(at(from, to->second), link);
    }
  };
  for (std::size_t g = 0; g < machine.gpus.size(); ++g) read(g, machine.gpus[g].links);
  for (std::size_t n = 0; n < machine.nics.size(); ++n) read(machine.gpus.size() + n, machine.nics[n].links);
}

void Joins::agree() {
  for (std::size_t a = 0; a < size_; ++a)
    for (std::size_t b = a + 1; b < size_; ++b) {
      const Join there = at(a, b), back = at(b, a);
      Join join;
      join.fast = agreed(there.fast, back.fast, [](LinkKind x, LinkKind y) { return rank(x) < rank(y) ? x : y; });
      join.count = agreed(there.count, back.count, smaller);
      join.pcie = agreed(there.pcie, back.pcie, larger);
      at(a, b) = at(b, a) = join;
    }
}

void Joins::complete_pcie(const model::Machine& machine) {
  const std::vector<Address> addresses = addresses_of(machine);
  const std::vector<std::optional<int>> nodes = nodes_of(machine);
  std::vector<char> told(size_ * size_);
  for (std::size_t a = 0; a < size_; ++a)
    for (std::size_t b = 0; b < size_; ++b) {
      if (a == b) continue;
      Join& join = at(a, b);
      told[a * size_ + b] = join.pcie.has_value();
      join.same = addresses[a] && addresses[a] == addresses[b];
      if (join.pcie) continue;
      if (one_card(addresses[a], addresses[b])) join.pcie = LinkKind::pix;
      else if (nodes[a] && nodes[b]) join.pcie = nodes[a] == nodes[b] ? LinkKind::node : LinkKind::sys;
    }
  for (std::size_t over = 0; over < size_; ++over)  // Floyd and Warshall, with the longest step as the length of a way
    for (std::size_t a = 0; a < size_; ++a)
      for (std::size_t b = 0; b < size_; ++b) {
        const auto &first = at(a, over).pcie, &second = at(over, b).pcie;
        if (a == b || told[a * size_ + b] || !first || !second) continue;
        Join& join = at(a, b);
        join.pcie = agreed(join.pcie, std::optional(std::max(*first, *second)), smaller);
      }
}

std::string Joins::label(std::size_t a, std::size_t b) const {
  if (a == b) return "X";
  const Join& join = between(a, b);
  if (join.fast == LinkKind::nvlink || join.fast == LinkKind::nvswitch) return fmt::format("NV{}", join.count.value_or(1));
  const auto shown = join.fast ? join.fast : join.pcie;
  if (!shown) return "N/A";
  std::string text = model::to_string(*shown);
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

bool behind_one_switch(const Join& join) { return join.pcie && *join.pcie <= LinkKind::pxb; }

}  // namespace thole::app
