#include "app/claim/observer.hpp"

#include <algorithm>
#include <tuple>

namespace thole::app {

namespace {
// What the topology gets when the drivers have used up all patience: it is read once a boot, mostly in some 10 ms.
constexpr Millis least_patience{300};
}  // namespace

Observer::Observer(std::vector<std::unique_ptr<port::GpuBackend>> backends, port::TopologySource* topology,
                   const port::Clock& clock, bool simulated)
    : readings_(backends.size()), topology_(topology), clock_(clock) {
  for (auto& backend : backends) sources_.push_back({std::move(backend), false});
  snapshot_.simulated = simulated;
}

const model::Snapshot& Observer::look(Millis patience, const port::Question& question) {
  bool news = snapshot_.taken_at == WallTime{};  // a machine without GPUs has CPUs all the same
  const SteadyTime give_up = clock_.steady() + patience;
  numbering_seen_ = numbering().text;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    Source& source = sources_[i];
    if (source.read_before && !source.backend->changed()) continue;
    const auto left = std::chrono::duration_cast<Millis>(give_up - clock_.steady());
    readings_[i] = source.backend->read(std::max(left, Millis{1}), question);
    source.read_before = true;
    news = true;
  }
  if (news) merge(std::max(std::chrono::duration_cast<Millis>(give_up - clock_.steady()), least_patience));
  snapshot_.taken_at = clock_.wall();
  return snapshot_;
}

std::optional<std::uint64_t> Observer::peak_memory_mib(const std::vector<std::string>& gpus, WallTime from, WallTime to,
                                                       Millis patience) {
  std::optional<std::uint64_t> largest;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    std::vector<std::string> here;
    for (const model::Gpu& gpu : readings_[i].gpus)
      if (std::ranges::find(gpus, gpu.key()) != gpus.end()) here.push_back(gpu.key());
    if (here.empty()) continue;
    asked += here.size();
    const auto peak = sources_[i].backend->peak_memory_mib(here, from, to, patience);
    if (!peak) return std::nullopt;
    largest = std::max(largest.value_or(0), *peak);
  }
  return asked == gpus.size() ? largest : std::nullopt;
}

port::Numbering Observer::numbering() const {
  port::Numbering all;
  for (const Source& source : sources_) {
    const port::Numbering its = source.backend->numbering();
    all.text += its.text + "\n";
    all.tells_all = all.tells_all && its.tells_all;
  }
  return all;
}

void Observer::rest() {
  for (Source& source : sources_) source.backend->rest();
}

std::string Observer::topology_problem() const { return topology_ ? topology_->problem() : ""; }

// GPUs of every source in PCI order: an index means the same whatever the vendors are. Those without an address come last,
// in the order of their source.
void Observer::merge(Millis patience) {
  std::vector<model::Gpu> gpus;
  snapshot_.observations.clear();
  for (const port::Reading& reading : readings_) {
    gpus.insert(gpus.end(), reading.gpus.begin(), reading.gpus.end());
    snapshot_.observations.push_back(reading.observation);
  }
  const auto place = [](const model::Gpu& gpu) {
    return std::make_tuple(!gpu.pci, gpu.pci.value_or(model::PciAddress{}), gpu.part.value_or(0));
  };
  std::stable_sort(gpus.begin(), gpus.end(), [&](const model::Gpu& a, const model::Gpu& b) { return place(a) < place(b); });
  if (topology_) snapshot_.machine = topology_->around(std::move(gpus), patience);
  else snapshot_.machine.gpus = std::move(gpus);
  units_ = model::units(snapshot_.machine);
}

}  // namespace thole::app
