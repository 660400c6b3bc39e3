// Any machine survives the way through JSON text: from(to(x)) == x.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "model/json.hpp"

namespace thole::model {
namespace {

using rc::gen::arbitrary;
using rc::gen::element;
using rc::gen::inRange;

std::string text() { return *rc::gen::map(arbitrary<std::vector<int>>(), [](const std::vector<int>& numbers) {
  // Valid UTF-8 of all lengths, with what JSON must escape; "" means unknown for some fields, which is as it should be.
  static const std::vector<std::string> pieces{"a",    "Z", "9",  " ", "\"",    "\\", "/", "\n", std::string(1, '\0'),
                                               "\x7f", "é", "日", "𝄞", "\u202e"};
  std::string result;
  for (int number : numbers) result += pieces[static_cast<std::size_t>(std::abs(number % 1000)) % pieces.size()];
  return result;
}); }

std::uint64_t mib() { return *inRange<std::uint64_t>(0, std::uint64_t{1} << 43); }
int small() { return *inRange(0, 1000); }

template <class F>
auto maybe(F&& make) -> std::optional<decltype(make())> {
  if (*inRange(0, 3) == 0) return std::nullopt;
  return make();
}

template <class T, class F>
Metric<T> metric(F&& make) {
  switch (*inRange(0, 5)) {
    case 0: return {};
    case 1: return Metric<T>::unsupported();
    case 2: return Metric<T>::failed(text());
    default: return Metric<T>(make());
  }
}

template <class F>
auto list(int most, F&& make) -> std::vector<decltype(make())> {
  std::vector<decltype(make())> result;
  for (int n = *inRange(0, most + 1); n > 0; --n) result.push_back(make());
  return result;
}

double number() { return std::abs(*inRange(0, 1 << 30) / 7.0); }

CpuSet cpus() {
  CpuSet set;
  for (int cpu : *rc::gen::container<std::vector<int>>(inRange(0, 300))) set.add(static_cast<unsigned>(cpu));
  return set;
}

PciAddress pci(int bus) {
  return {static_cast<std::uint32_t>(small()), static_cast<std::uint8_t>(bus), 0, static_cast<std::uint8_t>(small() % 8)};
}

GpuProcess process() {
  return {
      .pid = 1 + small(),
      .user = text(),
      .uid = {},                               // of this host, not of the file
      .command = text(),
      .kind = *element(GpuProcess::Kind::compute, GpuProcess::Kind::graphics, GpuProcess::Kind::both, GpuProcess::Kind::mps),
      .memory_mib = metric<std::uint64_t>(mib),
      .watch = *arbitrary<bool>()};
}

Use use() {
  return {.memory_used_mib = metric<std::uint64_t>(mib),
          .memory_free_mib = metric<std::uint64_t>(mib),
          .utilization_percent = metric<double>(number),
          .memory_utilization_percent = metric<double>(number),
          .temperature_c = metric<double>(number),
          .power_w = metric<double>(number),
          .power_limit_w = metric<double>(number),
          .processes = metric<std::vector<GpuProcess>>([] { return list(3, process); })};
}

Link link() {
  return {.to = pci(small() % 256),
          .kind = *element(LinkKind::nvlink, LinkKind::nvswitch, LinkKind::xgmi, LinkKind::c2c, LinkKind::pix, LinkKind::sys),
          .count = maybe(small), .weight = maybe(small)};
}

Instance instance() {
  return {.uuid = "MIG-" + std::to_string(*arbitrary<unsigned>()), .profile = text(), .memory_mib = maybe(mib),
          .instance = *arbitrary<bool>() ? std::array<int, 2>{small(), small()} : std::array<int, 2>{-1, -1}, .use = use()};
}

Gpu gpu(int index) {
  Gpu result;
  bool has_pci = *arbitrary<bool>();
  if (!has_pci || *arbitrary<bool>()) result.uuid = "GPU-" + std::to_string(index);
  if (has_pci) result.pci = PciAddress{static_cast<std::uint32_t>(index), static_cast<std::uint8_t>(small() % 256), 3, 1};
  result.vendor = *element(Vendor::nvidia, Vendor::amd, Vendor::intel);
  result.model = text();
  result.serial = text();
  result.driver = text();
  result.minor = maybe(small);
  result.cuda_index = maybe(small);
  result.memory_mib = maybe(mib);
  result.numa = maybe(small);
  result.part = maybe(small);
  result.near_cpus = {.node = maybe(cpus), .package = maybe(cpus)};
  result.links = list(3, link);
  result.mig_mode = *arbitrary<bool>();
  result.mig = list(3, instance);
  result.display = metric<bool>([] { return *arbitrary<bool>(); });
  result.monitor = metric<bool>([] { return *arbitrary<bool>(); });
  result.memory_numa = maybe(small);
  result.coherent = *arbitrary<bool>();
  result.compute_mode = metric<std::string>(text);
  result.health =
      *element(Health::ok, Health::lost, Health::reset_required, Health::driver_mismatch, Health::unreadable, Health::hung);
  result.health_reason = text();
  result.last_xid = maybe(small);
  result.use = use();
  result.accounts = maybe([] {
    return list(3, [] {
      return ProcessAccount{.started = WallTime(Millis(*inRange<std::int64_t>(0, 1LL << 42))), .peak_memory_mib = mib()};
    });
  });
  return result;
}

Machine any_machine() {
  Machine machine;
  machine.name = text();
  machine.hwloc_xml = text();
  unsigned next_cpu = 0;
  machine.cpus = list(5, [&] {
    next_cpu += static_cast<unsigned>(small());
    return Cpu{.id = next_cpu, .core = maybe(small), .l3 = maybe(small), .numa = maybe(small), .package = maybe(small)};
  });
  machine.numa = list(3, [] { return NumaNode{.id = small(), .memory_mib = maybe(mib)}; });
  for (int index = 0, n = *inRange(0, 4); index < n; ++index) machine.gpus.push_back(gpu(index));
  machine.nics = list(2, [] {
    return Nic{.name = text(),
               .pci = maybe([] { return pci(3); }),
               .numa = maybe(small),
               .rate_gbps = maybe(number),
               .links = list(2, link)};
  });
  machine.outer = {.visible_devices = maybe(text), .allowed_cpus = maybe(cpus)};
  return machine;
}

RC_GTEST_PROP(JsonRoundTrip, AnyMachineSurvivesIt, ()) {
  Machine machine = any_machine();
  RC_ASSERT(machine_from_json(to_json(machine)) == machine);
  for (int indent : {-1, 2}) RC_ASSERT(machine_from_json(parse_json(dump(to_json(machine), indent), "text")) == machine);
}

RC_GTEST_PROP(JsonRoundTrip, AnyStatusReadsBackAsItsMachine, ()) {
  Snapshot snapshot;
  snapshot.machine = any_machine();
  Holding holding;
  holding.key = holding.command = text();
  Waiting waiting;
  waiting.eligible = {text(), holding.key};
  std::string written = dump(status_json(snapshot, {holding}, {waiting}));
  RC_ASSERT(machine_from_json(parse_json(written, "text")) == snapshot.machine);
}

}  // namespace
}  // namespace thole::model
