// The text form of a Topology. A line is a name and a fixed number of words, "-" for what is not known:
//   cpu ID CORE L3 NODE PACKAGE      node ID MIB      nic NAME PCI NODE GBPS
//   device PCI VENDOR DEVICE CLASS NODE NEAR-CPUS HOST-BRIDGE BRIDGE+BRIDGE… ON-CARD VIRTUAL      problem SENTENCE
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "host/topology/topology.hpp"

namespace thole::host {

namespace {

// A word of the text form: "-" for what is not known, so that a line always has the same number of words.
template <class T>
std::string word(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : "-";
}
std::string word(const std::string& text) { return text.empty() ? "-" : text; }
constexpr std::string_view no_cpu = "none";
std::string word(const std::optional<model::CpuSet>& cpus) {
  if (!cpus) return "-";
  return cpus->empty() ? std::string(no_cpu) : cpus->to_string();
}
std::string word(const std::optional<model::PciAddress>& address) { return address ? address->to_string() : "-"; }
std::string hex_word(const std::optional<std::uint32_t>& value) { return value ? fmt::format("{:x}", *value) : "-"; }
std::string hex_word(const std::optional<std::uint16_t>& value) { return value ? fmt::format("{:x}", *value) : "-"; }

std::string word(const std::vector<model::PciAddress>& addresses) {
  std::string text;
  for (const model::PciAddress& address : addresses) text += (text.empty() ? "" : "+") + address.to_string();
  return word(text);
}

// Takes the words of one line in order; remembers whether one was not what it should be.
class LineWords {
 public:
  explicit LineWords(std::string_view line) : words_(split(line, ' ')) {}

  std::string_view text() {
    if (next_ < words_.size() && !words_[next_].empty()) return words_[next_++];
    good_ = false;
    return "-";
  }
  template <class T>
  void whole(std::optional<T>& value, int base = 10, std::uint64_t most = INT32_MAX) {
    const std::string_view word = text();
    if (word == "-") return;
    const auto number = parse_u64(word, base);
    good_ = good_ && number && *number <= most;
    if (number) value = static_cast<T>(*number);
  }
  template <class T>
  T must(std::uint64_t most) {
    std::optional<T> value;
    whole(value, 10, most);
    good_ = good_ && value;
    return value.value_or(T{});
  }
  void address(std::optional<model::PciAddress>& value) {
    const std::string_view word = text();
    if (word == "-") return;
    value = model::PciAddress::parse(word);
    good_ = good_ && value;
  }
  void expect(bool condition) { good_ = good_ && condition; }
  bool all_good() const { return good_ && next_ == words_.size(); }

 private:
  std::vector<std::string_view> words_;
  std::size_t next_ = 0;
  bool good_ = true;
};

constexpr std::uint64_t most_cpus = 1u << 16, most_memory_mib = std::uint64_t{1} << 43;

void read_cpu(LineWords& words, Topology& topology) {
  model::Cpu& cpu = topology.cpus.emplace_back();
  cpu.id = words.must<unsigned>(most_cpus);
  words.whole(cpu.core);
  words.whole(cpu.l3);
  words.whole(cpu.numa);
  words.whole(cpu.package);
}

void read_node(LineWords& words, Topology& topology) {
  model::NumaNode& node = topology.numa.emplace_back();
  node.id = words.must<int>(most_cpus);
  words.whole(node.memory_mib, 10, most_memory_mib);
}

void read_nic(LineWords& words, Topology& topology) {
  model::Nic& nic = topology.nics.emplace_back();
  nic.name = words.text();
  words.address(nic.pci);
  words.whole(nic.numa);
  if (const std::string_view rate = words.text(); rate != "-") {
    nic.rate_gbps = parse_double(rate);
    words.expect(nic.rate_gbps.has_value());
  }
}

void read_device(LineWords& words, Topology& topology) {
  PciDevice device;
  std::optional<model::PciAddress> address;
  words.address(address);
  words.expect(address.has_value());
  device.address = address.value_or(model::PciAddress{});
  words.whole(device.vendor, 16, UINT16_MAX);
  words.whole(device.device, 16, UINT16_MAX);
  words.whole(device.class_code, 16, 0xffffff);
  words.whole(device.numa);
  if (const std::string_view list = words.text(); list != "-") {
    device.local_cpus = model::CpuSet::parse(list == no_cpu ? "" : list);
    words.expect(device.local_cpus.has_value());
  }
  if (const std::string_view bridge = words.text(); bridge != "-") device.host_bridge = bridge;
  if (const std::string_view list = words.text(); list != "-") {
    for (std::string_view each : split(list, '+')) {
      const auto bridge = model::PciAddress::parse(each);
      words.expect(bridge.has_value());
      device.bridges.push_back(bridge.value_or(model::PciAddress{}));
    }
  }
  device.bridges_on_card = words.must<std::size_t>(device.bridges.size());
  device.virtual_function = words.must<unsigned>(1) == 1;
  topology.devices.emplace(device.address, std::move(device));
}

struct Line {
  std::string_view name;
  void (*read)(LineWords&, Topology&);
};
constexpr std::array<Line, 4> line_kinds{
    Line{"cpu", read_cpu}, {"node", read_node}, {"nic", read_nic}, {"device", read_device}};

}  // namespace

std::string to_text(const Topology& topology) {
  std::string text;
  if (!topology.problem.empty()) text += "problem " + topology.problem + "\n";
  for (const model::Cpu& cpu : topology.cpus)
    text += fmt::format("cpu {} {} {} {} {}\n", cpu.id, word(cpu.core), word(cpu.l3), word(cpu.numa), word(cpu.package));
  for (const model::NumaNode& node : topology.numa) text += fmt::format("node {} {}\n", node.id, word(node.memory_mib));
  for (const model::Nic& nic : topology.nics)
    text += fmt::format("nic {} {} {} {}\n", nic.name, word(nic.pci), word(nic.numa), word(nic.rate_gbps));
  for (const auto& [address, device] : topology.devices)
    text += fmt::format("device {} {} {} {} {} {} {} {} {} {}\n", address.to_string(), hex_word(device.vendor),
                        hex_word(device.device), hex_word(device.class_code), word(device.numa),
                        word(device.local_cpus), word(device.host_bridge),
                        word(device.bridges), device.bridges_on_card, device.virtual_function ? 1 : 0);
  return text;
}

std::optional<Topology> topology_from_text(std::string_view text) {
  Topology topology;
  for (std::string_view line : split_lines(text)) {
    const auto space = line.find(' ');
    const std::string_view name = line.substr(0, space), rest = space == line.npos ? "" : line.substr(space + 1);
    if (name == "problem") {
      topology.problem = rest;
      continue;
    }
    const auto* known = std::find_if(line_kinds.begin(), line_kinds.end(), [&](const Line& each) { return each.name == name; });
    if (known == line_kinds.end()) return std::nullopt;
    LineWords words(rest);
    known->read(words, topology);
    if (!words.all_good()) return std::nullopt;
  }
  return topology;
}

}  // namespace thole::host
