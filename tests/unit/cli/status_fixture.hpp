// Overviews made by hand, for tests of what status shows.
#pragma once

#include "app/show/overview.hpp"
#include "base/text.hpp"

namespace thole::test {

constexpr WallTime status_noon{Millis{1'794'916'800'000}};  // 2026-11-17 12:00:00 UTC, a Tuesday

inline model::Holding holding(std::string user, Seconds age, std::optional<Seconds> left, std::string command) {
  model::Holding held;
  held.id = "0123456789abcdef";
  held.held = held.verified = true;
  held.uid = user == "me" ? 1000 : 2000;
  held.user = std::move(user);
  held.pid = 4711;
  held.since = status_noon - age;
  if (left) held.until = status_noon + *left;
  held.command = std::move(command);
  return held;
}

inline model::GpuProcess process(pid_t pid, std::string user, std::string command) {
  model::GpuProcess process;
  process.pid = pid;
  process.user = std::move(user);
  process.command = std::move(command);
  return process;
}

// `count` idle GPUs of one model.
inline app::Overview overview_of(std::size_t count, const std::string& model = "NVIDIA A100-SXM4-80GB") {
  app::Overview overview;
  overview.now = status_noon;
  overview.uid = 1000;
  for (std::size_t g = 0; g < count; ++g) {
    model::Gpu gpu;
    gpu.uuid = fmt::format("GPU-{:08x}-1111-2222-3333-444444444444", g);
    gpu.model = model;
    gpu.pci = model::PciAddress{0, static_cast<std::uint8_t>(16 + g), 0, 0};
    gpu.memory_mib = 81920;
    gpu.use.memory_used_mib = std::uint64_t{11469} * g;
    gpu.use.utilization_percent = 12.0 * static_cast<double>(g);
    gpu.use.temperature_c = 30.0 + static_cast<double>(g);
    gpu.use.processes = std::vector<model::GpuProcess>{};
    overview.snapshot.machine.gpus.push_back(std::move(gpu));
  }
  for (model::Unit& unit : model::units(overview.snapshot.machine)) {
    app::UnitOverview row;
    row.unit = std::move(unit);
    row.state = app::State::idle;
    overview.units.push_back(std::move(row));
  }
  return overview;
}

inline void claim(app::UnitOverview& row, model::Holding holding) {
  holding.key = row.unit.key;
  row.mine = row.mine || holding.uid == 1000;
  row.state = holding.shared ? app::State::shared : app::State::claimed;
  row.holdings.push_back(std::move(holding));
}

// Every state at once, with values as long as they come.
inline app::Overview every_state() {
  app::Overview overview = overview_of(8);
  claim(overview.units[0],
        holding("anna", Seconds{7200}, Seconds{5400}, "python train.py --config configs/very/deeply/nested.yaml"));
  claim(overview.units[1], holding("me", Seconds{60}, std::nullopt, "jupyter-lab"));
  for (std::uint64_t gib : {8, 16}) {
    model::Holding sharer = holding(gib == 8 ? "bob" : "me", Seconds{300000}, Seconds{200000}, "python");
    sharer.shared = true;
    sharer.memory_mib = gib * 1024;
    claim(overview.units[2], sharer);
  }
  overview.units[3].state = app::State::foreign;
  overview.units[3].strangers = {process(99, "carl", "python3 -c import torch; while True: pass"),
                                 process(100, "carl", "python3"), process(101, "ann", "python3")};
  overview.units[3].why = "carl uses it without a claim";
  overview.units[4].state = app::State::sick;
  overview.units[4].why = "fell off the bus (Xid 79)";
  overview.snapshot.machine.gpus[4].use = {};
  overview.units[5].state = app::State::unknown;
  overview.units[5].why = "not readable: permission denied on /dev/nvidia5";
  overview.snapshot.machine.gpus[5].use.memory_used_mib = model::Metric<std::uint64_t>::failed("permission denied");
  overview.snapshot.machine.gpus[5].use.utilization_percent = model::Metric<double>::unsupported();
  model::Holding overdue = holding("eve_with_a_rather_long_name", Seconds{3'000'000}, Seconds{-600}, "./a.out");
  overdue.verified = false;
  claim(overview.units[6], overdue);
  overview.units[6].state = app::State::overdue;
  model::Waiting first, second;
  first.user = "dora";
  first.uid = 3000;
  first.count = 4;
  first.since = status_noon - Seconds{600};
  for (const app::UnitOverview& row : overview.units) first.eligible.push_back(row.unit.key);
  second.user = "me";
  second.uid = 1000;
  second.mine = true;
  second.count = 1;
  second.memory_mib = 20480;
  second.time = Seconds{7200};
  second.since = status_noon - Seconds{60};
  second.eligible = {overview.units[0].unit.key, overview.units[1].unit.key};
  overview.queue = {{first, std::nullopt}, {second, status_noon + Seconds{5400}}};
  return overview;
}

}  // namespace thole::test
