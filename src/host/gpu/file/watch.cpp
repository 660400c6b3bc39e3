#include "host/gpu/file/watch.hpp"

#include <algorithm>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {

std::uint64_t Watch::start_of(pid_t pid) const {
  auto stat = read_file(fmt::format("{}/{}/stat", proc_, pid), 4096);
  if (!stat) return 0;
  std::size_t name_end = stat->rfind(") ");  // the name may contain anything, also spaces and ')'
  if (name_end == std::string::npos) return 0;
  auto fields = split(trim(std::string_view(*stat).substr(name_end + 2)), ' ');
  constexpr std::size_t state = 0, start_time = 19;  // fields 3 and 22 of proc(5)
  // A zombie has given its memory back, on the GPU too.
  if (fields.size() <= start_time || fields[state] == "Z" || fields[state] == "X") return 0;
  return parse_u64(fields[start_time]).value_or(0);
}

void Watch::follow(const model::Use& use, std::map<pid_t, Life>& now) const {
  if (!use.processes) return;
  for (const model::GpuProcess& process : *use.processes) {
    if (!process.watch || now.contains(process.pid)) continue;
    auto before = lives_.find(process.pid);
    if (before != lives_.end()) {
      now.insert(*before);
      continue;
    }
    std::uint64_t start = start_of(process.pid);
    now[process.pid] = {.start_ticks = start, .ended = start == 0};
  }
}

void Watch::follow(const std::vector<model::Gpu>& gpus) {
  std::map<pid_t, Life> now;
  for (const model::Gpu& gpu : gpus) {
    follow(gpu.use, now);
    for (const model::Instance& instance : gpu.mig) follow(instance.use, now);
  }
  lives_ = std::move(now);
}

bool Watch::news() {
  bool any = false;
  for (auto& [pid, life] : lives_) {
    if (life.ended || start_of(pid) == life.start_ticks) continue;
    life.ended = any = true;
  }
  return any;
}

void Watch::apply(model::Use& use) const {
  if (!use.processes) return;
  std::vector<model::GpuProcess> left;
  std::uint64_t freed = 0;
  for (const model::GpuProcess& process : *use.processes) {
    auto life = lives_.find(process.pid);
    bool ended = process.watch && life != lives_.end() && life->second.ended;
    if (ended) freed += process.memory_mib.value_or(0);
    else left.push_back(process);
  }
  if (left.size() == use.processes.value_or({}).size()) return;
  if (use.memory_used_mib) use.memory_used_mib = *use.memory_used_mib - std::min(*use.memory_used_mib, freed);
  if (left.empty() && use.utilization_percent) use.utilization_percent = 0.0;  // nobody is left to keep it busy
  use.processes = std::move(left);
}

void Watch::apply(std::vector<model::Gpu>& gpus) const {
  if (lives_.empty()) return;
  for (model::Gpu& gpu : gpus) {
    apply(gpu.use);
    for (model::Instance& instance : gpu.mig) apply(instance.use);
  }
}

}  // namespace thole::host
