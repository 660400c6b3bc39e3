#include "plan/place/free.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.hpp"
#include "base/words.hpp"

namespace thole::plan {

using model::Beside;
using model::GpuProcess;
using model::Health;
using model::Metric;

const char* to_string(Standing standing) {
  switch (standing) {
    case Standing::free: return "free";
    case Standing::foreign: return "foreign";
    case Standing::sick: return "sick";
    case Standing::unknown: return "unknown";
  }
  return "unknown";
}

namespace {

// A way to judge by: the driver's answer, no such thing on this GPU, or an answer that should have come and did not.
enum class Witness { speaks, none, silent };

template <class T>
Witness witness(const Metric<T>& metric, bool simulated) {
  if (metric.known()) return Witness::speaks;
  using State = typename Metric<T>::State;
  const bool none = metric.state() == State::unsupported || (simulated && metric.state() == State::unknown);
  return none ? Witness::none : Witness::silent;  // a machine file need not give both memory and processes
}

// What the driver says about one unit, sorted by whose it is.
struct Seen {
  std::vector<const GpuProcess*> strangers;     // computing without a claim
  bool graphics = false;
  bool unmeasured = false, own_unmeasured = false, graphics_unmeasured = false;  // memory of a stranger, … is not known
  std::uint64_t own_mib = 0, graphics_mib = 0, others_mib = 0;                     // others: ignored processes, strangers
};

bool ignored(const GpuProcess& process, const model::FreePolicy& policy) {
  std::string_view word = std::string_view(process.command).substr(0, process.command.find(' '));
  if (const auto slash = word.rfind('/'); slash != std::string_view::npos) word.remove_prefix(slash + 1);
  if (word == placeholder_name) return true;
  return std::any_of(policy.ignore_processes.begin(), policy.ignore_processes.end(),
                     [&](const std::string& name) { return word == name; });
}

Seen sort(const model::Use& use, const model::FreePolicy& policy, const std::vector<pid_t>& own_pids) {
  Seen seen;
  if (!use.processes) return seen;
  for (const GpuProcess& process : *use.processes) {
    const bool graphics = process.kind == GpuProcess::Kind::graphics || process.kind == GpuProcess::Kind::both;
    const std::uint64_t mib = process.memory_mib.value_or(0);
    seen.graphics = seen.graphics || graphics;
    if (std::find(own_pids.begin(), own_pids.end(), process.pid) != own_pids.end()) {
      seen.own_mib += mib;
      seen.own_unmeasured = seen.own_unmeasured || !process.memory_mib;
      continue;
    }
    (graphics ? seen.graphics_mib : seen.others_mib) += mib;
    if (graphics) {
      seen.graphics_unmeasured = seen.graphics_unmeasured || !process.memory_mib;
    } else if (!ignored(process, policy)) {
      seen.unmeasured = seen.unmeasured || !process.memory_mib;
      seen.strangers.push_back(&process);
    }
  }
  return seen;
}

const model::Observation* observation_of(const model::Gpu& gpu, const model::Snapshot& snapshot) {
  for (const model::Observation& observation : snapshot.observations)
    if (observation.backend == "file" || observation.backend == to_string(gpu.vendor)) return &observation;
  return nullptr;
}

}  // namespace

bool admits_one_process(const model::Gpu& gpu) { return to_lower(gpu.compute_mode.value_or("")) == "exclusive-process"; }

std::optional<Blame> illness(const model::Gpu& gpu, const model::Request& request) {
  const std::string reason = gpu.health_reason.empty() ? "" : ": " + printable(gpu.health_reason, 200);
  switch (gpu.health) {
    case Health::ok: break;
    case Health::lost: return Blame{Standing::sick, "lost" + (reason.empty() ? ": it has fallen off the bus" : reason)};
    case Health::reset_required: return Blame{Standing::sick, reason.empty() ? "needs a reset" : "out of order" + reason};
    case Health::driver_mismatch: return Blame{Standing::sick, "driver and library do not match" + reason};
    case Health::unreadable: return Blame{Standing::unknown, "cannot be read" + reason};
    case Health::hung: return Blame{Standing::unknown, "the driver does not answer" + reason};
  }
  if (to_lower(gpu.compute_mode.value_or("")) == "prohibited")
    return Blame{Standing::sick, "its compute mode prohibits computing (nvidia-smi -c DEFAULT allows it)"};
  if (request.share && admits_one_process(gpu))
    return Blame{Standing::sick, "its compute mode admits one process only (nvidia-smi -c DEFAULT allows sharing)"};
  return std::nullopt;
}

namespace {

std::string name_one(const GpuProcess& process) {
  std::string text = process.user.empty() ? "somebody" : printable(process.user, 32);
  const std::string number = process.pid > 0 ? fmt::format("pid {}", process.pid) : "number unknown";
  text += process.command.empty() ? " (" + number : fmt::format(" ({}, {}", printable(process.command, 40), number);
  if (process.memory_mib) text += ", " + format_mib(*process.memory_mib);
  return text + ")";
}

std::string name_all(const std::vector<const GpuProcess*>& processes) {
  constexpr std::size_t named_at_most = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(processes.size(), named_at_most); ++i) text += (i ? ", " : "") + name_one(*processes[i]);
  return text + and_more(processes.size(), named_at_most);
}

bool tolerated(const GpuProcess& process, const model::Request& request, const std::string& my_user) {
  switch (request.beside) {
    case Beside::none: return false;
    case Beside::mine: return !my_user.empty() && process.user == my_user;
    case Beside::any: return true;
  }
  return false;
}

// A process whose user is not seen from here may be the same one's.
void put_user(Verdict& verdict, const Seen& seen, bool pids_foreign) {
  std::set<std::uint32_t> users;
  for (const GpuProcess* process : seen.strangers) {
    if (process->uid && !pids_foreign) users.insert(*process->uid);
    else if (!process->user.empty() && !pids_foreign) return;    // known by a name alone: nobody's of this machine
  }
  if (users.size() == 1) verdict.used_by = *users.begin();
  verdict.used_by_unseen = users.empty() && !seen.strangers.empty();
}

// The thresholds of --beside, asked only where there is somebody beside.
std::optional<Blame> too_busy(const model::Use& use, std::optional<std::uint64_t> total, const model::Request& request) {
  const auto as_in_line = [](double percent) { return std::ceil(percent * 10) / 10; };   // Terms: others judge him by that
  const double most_load = as_in_line(request.max_load_percent.value_or(50));
  const double most_memory = as_in_line(request.max_memory_percent.value_or(50));
  if (!use.utilization_percent && most_load < 100) return Blame{Standing::unknown, "in use, and its load cannot be read"};
  if (use.utilization_percent.value_or(0) > most_load)
    return Blame{Standing::foreign, fmt::format("busy: {:.3g}% load, more than {:.3g}%", *use.utilization_percent, most_load)};
  if (most_memory >= 100) return std::nullopt;
  if (!use.memory_used_mib || !total || *total == 0) return Blame{Standing::unknown, "in use, and its memory cannot be read"};
  const double percent = 100.0 * static_cast<double>(*use.memory_used_mib) / static_cast<double>(*total);
  if (percent > most_memory)
    return Blame{Standing::foreign,
                 fmt::format("full: {:.3g}% of its memory is in use, more than {:.3g}%", percent, most_memory)};
  return std::nullopt;
}

// Memory in use that no process accounts for: somebody in another container, hidden, or just ending. Where a display is driven
// the driver itself takes some hundred MiB that it lists for no process, and inside WSL all that Windows shows.
std::uint64_t unexplained(const model::Gpu& gpu, const model::Use& use, const Seen& seen, bool pids_foreign) {
  if (gpu.coherent || !use.memory_used_mib || seen.own_unmeasured || seen.unmeasured) return 0;
  if (gpu.display.value_or(false) && !pids_foreign) return 0;
  const bool driven_display = gpu.display.value_or(false) || seen.graphics;
  if (driven_display && (seen.graphics_unmeasured || !use.processes)) return 0;
  const std::uint64_t explained = seen.own_mib + seen.graphics_mib + seen.others_mib;
  return *use.memory_used_mib > explained ? *use.memory_used_mib - explained : 0;
}

std::optional<Blame> foreign_use(const model::Gpu& gpu, const model::Use& use, std::optional<std::uint64_t> total,
                                 const Seen& seen, const model::Request& request, const model::FreePolicy& policy,
                                 bool pids_foreign, const std::string& my_user) {
  const std::uint64_t hidden = unexplained(gpu, use, seen, pids_foreign);
  if (pids_foreign && (hidden > policy.ignore_memory_mib || !seen.strangers.empty()) && request.beside != Beside::any)
    return Blame{Standing::unknown, "in use, but this container cannot see by whom (--beside any takes it)"};
  std::vector<const GpuProcess*> unwanted;
  for (const GpuProcess* process : seen.strangers)
    if (!tolerated(*process, request, my_user)) unwanted.push_back(process);
  if (!unwanted.empty()) return Blame{Standing::foreign, "used without a claim by " + name_all(unwanted)};
  if (hidden > policy.ignore_memory_mib && request.beside != Beside::any)
    return Blame{Standing::foreign,
                 format_mib(hidden) + " of its memory are in use by a process that cannot be seen (--beside any takes it)"};
  if (seen.strangers.empty() && hidden <= policy.ignore_memory_mib) return std::nullopt;
  if (admits_one_process(gpu)) return Blame{Standing::foreign, "in use, and its compute mode admits one process only"};
  return too_busy(use, total, request);
}

std::optional<Blame> too_little_memory(const model::Gpu& gpu, const model::Use& use, std::optional<std::uint64_t> total,
                                       const Seen& seen, const model::Request& request) {
  if (!request.memory_mib || request.share || gpu.coherent || !use.memory_used_mib || !total) return std::nullopt;
  const std::uint64_t used = *use.memory_used_mib - std::min(*use.memory_used_mib, seen.own_mib);
  const std::uint64_t left = *total - std::min(*total, used);
  if (left >= *request.memory_mib) return std::nullopt;
  return Blame{Standing::foreign, fmt::format("only {} of its memory are free", format_mib(left))};
}

// What must be known before anything may be called free; the sentence says what is not.
std::optional<Blame> not_seen(const model::Gpu& gpu, const model::Use& use, const model::Observation* observation,
                              bool simulated) {
  if (observation && observation->age) {
    const Seconds age = std::chrono::duration_cast<Seconds>(*observation->age);
    return Blame{Standing::unknown, "last seen " + format_duration(age) + " ago"};
  }
  const Witness processes = witness(use.processes, simulated), memory = witness(use.memory_used_mib, simulated);
  const bool told_nothing = simulated && use == model::Use{};  // a machine file without "use" is an idle machine
  const auto because = [&](const std::string& why) { return why.empty() ? "" : ": " + printable(why, 200); };
  if (told_nothing) return std::nullopt;
  if (processes == Witness::silent)
    return Blame{Standing::unknown, "its processes cannot be seen" + because(use.processes.why())};
  if (memory == Witness::silent && !gpu.coherent)
    return Blame{Standing::unknown, "its memory in use cannot be read" + because(use.memory_used_mib.why())};
  const bool by_memory = memory == Witness::speaks && !gpu.coherent;
  if (processes == Witness::none && !by_memory)
    return Blame{Standing::unknown, "neither its processes nor its memory can be read (only --trust-claims takes it)"};
  return std::nullopt;
}

}  // namespace

Verdict judge(const model::Unit& unit, const model::Snapshot& snapshot, const model::Request& request,
              const model::FreePolicy& policy, const std::vector<pid_t>& own_pids, const std::string& my_user) {
  const model::Gpu& gpu = unit.gpu_of(snapshot.machine);
  const model::Use& use = unit.use_of(snapshot.machine);
  const std::optional<std::uint64_t> total = unit.memory_mib_of(snapshot.machine);
  const model::Observation* observation = observation_of(gpu, snapshot);
  const Seen seen = sort(use, policy, own_pids);

  Verdict verdict;
  verdict.last_resort = seen.graphics || gpu.display.value_or(false);
  const auto conclude = [&](std::optional<Blame> blame) {
    verdict.standing = blame ? blame->standing : Standing::free;
    verdict.why = blame ? std::move(blame->why) : "";
    return verdict;
  };
  std::optional<Blame> blame = illness(gpu, request);
  if (request.trust_claims) {
    verdict.last_resort = verdict.last_resort || blame;
    return conclude(blame && blame->standing == Standing::sick ? blame : std::nullopt);
  }
  if (use.memory_used_mib && !gpu.coherent && !seen.own_unmeasured)
    verdict.unclaimed_mib = *use.memory_used_mib - std::min(*use.memory_used_mib, seen.own_mib);
  if (!blame) blame = not_seen(gpu, use, observation, snapshot.simulated);
  if (blame) return conclude(std::move(blame));

  const bool pids_foreign = observation && observation->pids_foreign;
  blame = foreign_use(gpu, use, total, seen, request, policy, pids_foreign, my_user);
  verdict.kept_by_use = blame.has_value();
  if (blame && unexplained(gpu, use, seen, pids_foreign) <= policy.ignore_memory_mib) put_user(verdict, seen, pids_foreign);
  if (blame && !pids_foreign)
    for (const GpuProcess* process : seen.strangers)
      if (process->pid > 0 && !tolerated(*process, request, my_user)) verdict.wait_for.push_back(process->pid);
  if (!blame) blame = too_little_memory(gpu, use, total, seen, request);
  return conclude(std::move(blame));
}

}  // namespace thole::plan
