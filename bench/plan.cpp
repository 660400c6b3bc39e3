// What a plan costs: placing the worst case of any 8 of 16 GPUs, and binding 8 ranks on 256 CPUs, beside copying the machine as
// a bare operation of its size. Usage: bench_plan [rounds]
#include <cstdlib>
#include <string>

#include "base/text.hpp"
#include "model/unit.hpp"
#include "plan/bind/bind.hpp"
#include "plan/place/place.hpp"
#include "table.hpp"

namespace thole::bench {
namespace {

// Two packages of `nodes` NUMA nodes, two threads a core, `gpus` spread over the nodes; all GPUs on one NVSwitch fabric and
// each pair at its own PCIe distance, so that no two sets are settled by the first criterion alone.
model::Machine machine_of(unsigned cpus, int nodes, unsigned gpus) {
  model::Machine machine;
  const unsigned cores = cpus / 2;
  for (unsigned id = 0; id < cpus; ++id) {
    const int core = static_cast<int>(id % cores), node = core * 2 * nodes / static_cast<int>(cores);
    machine.cpus.push_back({.id = id, .core = core, .l3 = core / 8, .numa = node, .package = node / nodes});
  }
  for (int node = 0; node < 2 * nodes; ++node) machine.numa.push_back({.id = node, .memory_mib = 131072});
  for (unsigned i = 0; i < gpus; ++i) {
    model::Gpu gpu;
    gpu.uuid = fmt::format("GPU-{:08x}", i);
    gpu.pci = model::PciAddress{0, static_cast<std::uint8_t>(i + 1), 0, 0};
    gpu.numa = static_cast<int>(i) * 2 * nodes / static_cast<int>(gpus);
    gpu.links.push_back({model::PciAddress{0, 0xff, 0, 0}, model::LinkKind::nvswitch, 12, std::nullopt});
    for (unsigned j = 0; j < gpus; ++j)
      if (j != i)
        gpu.links.push_back({model::PciAddress{0, static_cast<std::uint8_t>(j + 1), 0, 0},
                             i / 2 == j / 2   ? model::LinkKind::pix
                             : i / 4 == j / 4 ? model::LinkKind::pxb
                                              : model::LinkKind::sys,
                             std::nullopt, std::nullopt});
    machine.gpus.push_back(std::move(gpu));
  }
  return machine;
}

void placing(int rounds, model::Shape shape) {
  model::Snapshot snapshot;
  snapshot.machine = machine_of(256, 4, 16);
  const auto units = model::units(snapshot.machine);
  std::vector<plan::Candidate> candidates;
  for (std::size_t i = 0; i < units.size(); ++i) candidates.push_back({i});
  model::Request request;
  request.gpus = 8;
  request.shape = shape;
  Samples ours, bare;
  for (int round = 0; round < rounds; ++round) {
    double before = now_us();
    const model::Snapshot copy = snapshot;
    bare.push_back(now_us() - before);
    before = now_us();
    const auto placement = plan::place(request, snapshot, units, candidates);
    ours.push_back(now_us() - before);
    if (!placement || !placement->exact || copy.machine.gpus.size() != 16) std::abort();
  }
  print_head(fmt::format("place any 8 of 16 GPUs, {}", to_string(shape)).c_str());
  print_row("copying the machine", bare);
  print_row("place", ours);
  print_limit(ours, bare, 1500);
}

void binding(int rounds, const char* mode) {
  const model::Machine machine = machine_of(256, 4, 8);
  model::BindRequest request;
  request.options = model::BindOptions::for_ranks();
  if (!parse_bind_mode(mode, request.options)) std::abort();
  model::CpuSet allowed;
  for (unsigned cpu = 0; cpu < 256; ++cpu) allowed.add(cpu);
  request.allowed = allowed;
  for (std::size_t gpu = 0; gpu < 8; ++gpu) request.ranks.push_back({gpu});
  Samples ours, bare;
  for (int round = 0; round < rounds; ++round) {
    double before = now_us();
    const model::Machine copy = machine;
    bare.push_back(now_us() - before);
    before = now_us();
    const auto plan = plan::bind(machine, request);
    ours.push_back(now_us() - before);
    if (!std::holds_alternative<model::BindingPlan>(plan) || copy.cpus.size() != 256) std::abort();
  }
  print_head(fmt::format("bind 8 ranks on 256 CPUs, {}", mode).c_str());
  print_row("copying the machine", bare);
  print_row("bind", ours);
  print_limit(ours, bare, 1000);
}

}  // namespace
}  // namespace thole::bench

int main(int argc, char** argv) {
  using namespace thole;
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 300;
  for (const auto shape : {model::Shape::collective, model::Shape::pairwise, model::Shape::independent})
    bench::placing(rounds, shape);
  for (const char* mode : {"exclusive", "node", "l3", "core:4", "compat"}) bench::binding(rounds, mode);
}
