#include "host/gpu/nvidia/backend.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/gpu/nvidia/accounts.hpp"
#include "host/gpu/nvidia/merge.hpp"
#include "host/gpu/nvidia/probe.hpp"
#include "host/gpu/process_names.hpp"

namespace thole::host {
namespace {

using nvidia::Observed;
using nvidia::ProbeRequest;
using SteadyClock = std::chrono::steady_clock;

constexpr Millis cold_patience{10'000}, warm_patience{2'000};
constexpr Millis doubtful_patience{500};                   // for a GPU that did not answer last time, once all others have

bool is_worth_asking(const nvidia::DriverFiles& files) {
  if (files.loaded || files.gpus.empty()) return true;     // WSL has the library without the files
  return std::any_of(files.gpus.begin(), files.gpus.end(),
                     [](const nvidia::FileGpu& gpu) { return gpu.bound_to.empty() || gpu.bound_to == "nvidia"; });
}

ProbeRequest request_for(const nvidia::DriverFiles& files, const Tree& tree, const std::string& nvml_path) {
  ProbeRequest request;
  request.nvml_path = nvml_path;
  for (const nvidia::FileGpu& gpu : files.gpus) {
    auto minor = gpu.information.minor;
    if (files.loaded && minor) request.nodes.push_back({gpu.pci.to_string(), tree.at("/dev/nvidia" + std::to_string(*minor))});
    if (!tree.exists("/sys/bus/pci/devices/" + gpu.pci.to_string() + "/local_cpulist")) request.want_cpus = true;
  }
  return request;
}

}  // namespace

NvidiaBackend::NvidiaBackend(NvidiaOptions options)
    : options_(std::move(options)),
      tree_(options_.root),
      probe_({options_.program, {"__probe", "nvidia"}, options_.runtime_dir, "probe-nvidia"}) {}

bool NvidiaBackend::present() const { return nvidia::any_nvidia(tree_); }

port::Reading NvidiaBackend::read(Millis patience) {
  Observed observed;
  observed.files = nvidia::read_files(tree_);
  observed.asked = is_worth_asking(observed.files);
  if (observed.asked)
    if (const auto log = nvidia::read_kernel_log(tree_)) observed.logged = nvidia::parse_xids(*log);
  observed.pids_foreign = nvidia::pids_are_foreign(tree_);
  observed.now = std::chrono::floor<Millis>(std::chrono::system_clock::now());
  if (auto text = tree_.text("/proc/meminfo"))
    if (auto total = field(*text, "MemTotal"))
      observed.host_memory_mib = parse_size_mib(std::string(split(*total, ' ')[0]) + "K");
  if (observed.asked) ask(observed, patience);
  accounted_ = nvidia::accounted(observed.nvml);
  if (observed.outcome.end != ProbeOutcome::End::complete) {
    if (auto last = probe_.last_answer()) {
      observed.earlier.emplace();
      for (const std::string& line : last->lines) observed.earlier->add(line);
      observed.earlier_age = last->age;
    }
  }
  port::Reading reading = nvidia::merge(observed);
  if (!observed.pids_foreign) name_processes(tree_, reading.gpus);
  return reading;
}

std::optional<std::uint64_t> NvidiaBackend::peak_memory_mib(const std::vector<std::string>& gpus, WallTime from, WallTime to,
                                                            Millis patience) {
  if (gpus.empty() || !std::ranges::all_of(gpus, [this](const std::string& key) { return accounted_.contains(key); }))
    return std::nullopt;
  ProbeRequest request;
  request.nvml_path = options_.nvml_path;
  request.accounts_of = gpus;
  request.since_us = nvidia::in_us(from);
  nvidia::RawReading answer;
  auto on_record = [&](std::string_view line) -> std::optional<Millis> {
    answer.add(line);
    return std::nullopt;
  };
  const ProbeOutcome outcome = probe_.ask(request.to_line(), patience, on_record, AnswerFor::asker);
  probe_.discard();
  if (outcome.end != ProbeOutcome::End::complete) accounted_.clear();
  return answer.accounts.size() == gpus.size() ? nvidia::peak_memory_mib(answer.accounts, from, to) : std::nullopt;
}

// Asks the probe; once more when it crashed, with the GPUs it crashed on read last, so that the others are read.
void NvidiaBackend::ask(Observed& observed, Millis patience) {
  SteadyTime deadline = SteadyClock::now() + std::min(patience, asked_before_ ? warm_patience : cold_patience);
  asked_before_ = true;
  ProbeRequest request = request_for(observed.files, tree_, options_.nvml_path);
  request.last = recall_doubtful();
  for (int attempt = 0; attempt < 2; ++attempt) {
    nvidia::RawReading& nvml = observed.nvml = {};
    auto on_record = [&](std::string_view line) -> std::optional<Millis> {
      nvml.add(line);
      if (request.last.empty() || !nvml.driver || !nvml.driver->count) return std::nullopt;
      for (std::uint32_t i = 0; i < nvml.driver->count.value; ++i)
        if (!nvml.has(i) && std::find(request.last.begin(), request.last.end(), i) == request.last.end()) return std::nullopt;
      return doubtful_patience;
    };
    auto left = std::chrono::ceil<Millis>(deadline - SteadyClock::now());
    observed.outcome = probe_.ask(request.to_line(), std::max(left, Millis(1)), on_record);
    bool crashed_on_some = observed.outcome.end == ProbeOutcome::End::crashed && !nvml.in_progress.empty();
    if (!crashed_on_some || !request.last.empty()) break;
    request.last.assign(nvml.in_progress.begin(), nvml.in_progress.end());
  }
  note_doubtful(observed);
}

// The GPUs, by the library's index, that did not answer last time.
std::vector<std::uint32_t> NvidiaBackend::recall_doubtful() const {
  std::vector<std::uint32_t> doubtful;
  if (!probe_.has_memory()) return doubtful;
  std::string text = read_file(options_.runtime_dir + "/probe-nvidia.doubtful", 4096).value_or("");
  for (std::string_view word : split(trim(text), ' '))
    if (auto index = parse_u64(word); index && *index < 256) doubtful.push_back(static_cast<std::uint32_t>(*index));
  return doubtful;
}

void NvidiaBackend::note_doubtful(const Observed& observed) const {
  using End = ProbeOutcome::End;
  if (!probe_.has_memory() || observed.outcome.end == End::occupied || observed.outcome.end == End::not_started) return;
  std::string file = options_.runtime_dir + "/probe-nvidia.doubtful";
  if (observed.outcome.end == End::complete || observed.nvml.in_progress.empty()) {
    ::unlink(file.c_str());
    return;
  }
  std::string text;
  for (std::uint32_t index : observed.nvml.in_progress) text += std::to_string(index) + " ";
  try {
    write_file(file, text, 0600);
  } catch (const Error&) {
    // Not remembered: the next reading is slower, not wrong.
  }
}

}  // namespace thole::host
