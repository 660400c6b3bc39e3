#include "app/observer.hpp"

#include <algorithm>
#include <tuple>

namespace thole::app {

Observer::Observer(std::vector<std::unique_ptr<port::GpuBackend>> backends, port::TopologySource* topology,
                   const port::Clock& clock, bool simulated)
    : readings_(backends.size()), topology_(topology), clock_(clock) {
  for (auto& backend : backends) sources_.push_back({std::move(backend), false});
  snapshot_.simulated = simulated;
}

const model::Snapshot& Observer::look(Millis patience) {
  bool news = false;
  const SteadyTime give_up = clock_.steady() + patience;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    Source& source = sources_[i];
    if (source.read_before && !source.backend->changed()) continue;
    const auto left = std::chrono::duration_cast<Millis>(give_up - clock_.steady());
    readings_[i] = source.backend->read(std::max(left, Millis{1}));
    source.read_before = true;
    news = true;
  }
  if (news) merge();
  if (news && snapshot_.simulated) adopt_topology();
  snapshot_.taken_at = clock_.wall();
  return snapshot_;
}

void Observer::rest() {
  for (Source& source : sources_) source.backend->rest();
}

void Observer::read_topology() {
  if (!topology_read_) adopt_topology();
}

void Observer::adopt_topology() {
  if (!topology_) return;
  model::Machine machine = topology_->read();
  machine.gpus = std::move(snapshot_.machine.gpus);
  snapshot_.machine = std::move(machine);
  topology_read_ = true;
}

// GPUs of every source in PCI order: an index means the same whatever the vendors are. Those without an address come last,
// in the order of their source.
void Observer::merge() {
  snapshot_.machine.gpus.clear();
  snapshot_.observations.clear();
  for (const port::Reading& reading : readings_) {
    auto& gpus = snapshot_.machine.gpus;
    gpus.insert(gpus.end(), reading.gpus.begin(), reading.gpus.end());
    snapshot_.observations.push_back(reading.observation);
  }
  const auto place = [](const model::Gpu& gpu) {
    return std::make_tuple(!gpu.pci, gpu.pci.value_or(model::PciAddress{}), gpu.part.value_or(0));
  };
  std::stable_sort(snapshot_.machine.gpus.begin(), snapshot_.machine.gpus.end(),
                   [&](const model::Gpu& a, const model::Gpu& b) { return place(a) < place(b); });
  units_ = model::units(snapshot_.machine);
}

}  // namespace thole::app
