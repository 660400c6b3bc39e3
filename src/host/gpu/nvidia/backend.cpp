#include "host/gpu/nvidia/backend.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "host/gpu/nvidia/accounts.hpp"
#include "host/gpu/nvidia/doubtful.hpp"
#include "host/gpu/nvidia/merge.hpp"
#include "host/gpu/nvidia/patience.hpp"
#include "host/gpu/nvidia/probe.hpp"
#include "host/gpu/process_names.hpp"

namespace thole::host {
namespace {

using nvidia::Observed;
using nvidia::ProbeRequest;
using SteadyClock = std::chrono::steady_clock;
using End = ProbeOutcome::End;

bool is_worth_asking(const nvidia::DriverFiles& files) {
  if (files.loaded || files.gpus.empty()) return true;     // WSL has the library without the files
  return std::any_of(files.gpus.begin(), files.gpus.end(),
                     [](const nvidia::FileGpu& gpu) { return gpu.bound_to.empty() || gpu.bound_to == "nvidia"; });
}

// A 3D controller (PCI class 0302, most of a data centre's GPUs) has nowhere to plug a monitor in.
bool has_connectors(const Tree& tree, const std::string& pci) {
  const auto pci_class = tree.hex("/sys/bus/pci/devices/" + pci + "/class");
  return !pci_class || *pci_class >> 8 != 0x0302;
}

}  // namespace

NvidiaBackend::NvidiaBackend(NvidiaOptions options)
    : options_(std::move(options)),
      tree_(options_.root),
      probe_({options_.program, {"__probe", "nvidia"}, options_.runtime_dir, "probe-nvidia", options_.probe_outlives}),
      identities_(options_.program.empty() ? "" : options_.runtime_dir) {}

bool NvidiaBackend::present() const { return nvidia::any_nvidia(tree_); }

port::Reading NvidiaBackend::read(Millis patience, const port::Question& question) {
  Observed observed = observe();
  identities_.recall(tree_, observed.files, options_.nvml_path);
  if (observed.asked) ask(observed, patience, question);
  accounted_ = nvidia::accounting(observed.nvml);
  if (observed.outcome.end != End::complete) {
    if (auto last = probe_.last_answer()) {
      observed.earlier.emplace();
      for (const std::string& line : last->lines) observed.earlier->add(line);
      observed.earlier_age = last->age;
    }
  }
  port::Reading reading = nvidia::merge(observed);
  if (!observed.pids_foreign) name_processes(tree_, reading.gpus);
  if (!whole_) return reading;
  indices_.clear();
  for (const model::Gpu& gpu : reading.gpus)
    for (const auto& [index, identity] : whole_->identities)
      if (gpu.pci && model::PciAddress::parse(identity.pci.value) == gpu.pci) indices_[gpu.key()] = index;
  return reading;
}

// What can be seen without asking the library.
Observed NvidiaBackend::observe() const {
  Observed observed;
  observed.files = nvidia::read_files(tree_);
  observed.asked = is_worth_asking(observed.files);
  if (observed.asked) {
    const auto log = nvidia::read_kernel_log(tree_);
    observed.log_read = log.has_value();
    if (log) observed.logged = nvidia::parse_xids(*log);
  }
  observed.pids_foreign = nvidia::pids_are_foreign(tree_);
  observed.now = std::chrono::floor<Millis>(std::chrono::system_clock::now());
  if (auto text = tree_.text("/proc/meminfo"))
    if (auto total = field(*text, "MemTotal"))
      observed.host_memory_mib = parse_size_mib(std::string(split(*total, ' ')[0]) + "K");
  return observed;
}

ProbeRequest NvidiaBackend::request_for(const Observed& observed, const port::Question& question) const {
  const nvidia::DriverFiles& files = observed.files;
  ProbeRequest request;
  request.nvml_path = options_.nvml_path;
  request.driver = files.version;
  request.purpose = question.purpose;
  request.only = indices_of(question.only);
  request.events = !observed.log_read;
  for (const nvidia::FileGpu& gpu : files.gpus) {
    const std::string pci = gpu.pci.to_string();
    const nvidia::Information& known = gpu.information;
    ProbeRequest::Node node{pci, ""};
    if (files.loaded && known.minor) node.path = tree_.at("/dev/nvidia" + std::to_string(*known.minor));
    node.named = known.minor && !known.uuid.empty() && !known.model.empty();
    node.known = question.purpose != port::Purpose::examine && identities_.knows(gpu.pci);
    node.connectors = has_connectors(tree_, pci);
    request.nodes.push_back(std::move(node));
    if (!tree_.exists("/sys/bus/pci/devices/" + pci + "/local_cpulist")) request.want_cpus = true;
  }
  request.last = nvidia::recall_doubtful(memory());
  return request;
}

// Empty, which means all, when one of them was not read before.
std::vector<std::uint32_t> NvidiaBackend::indices_of(const std::vector<std::string>& keys) const {
  std::vector<std::uint32_t> indices;
  for (const std::string& key : keys) {
    const auto known = indices_.find(key);
    if (known == indices_.end()) return {};
    indices.push_back(known->second);
  }
  return indices;
}

void NvidiaBackend::ask(Observed& observed, Millis patience, const port::Question& question) {
  const SteadyTime deadline = SteadyClock::now() + patience;
  ProbeRequest request = request_for(observed, question);
  bool finished = ask_again(observed, request, deadline);
  identities_.complete(observed.nvml, observed.files);
  if (!request.only.empty()) {
    if (overlay(observed, request.only)) return;
    request.only.clear();                                  // GPUs came or went: another has this index now
    finished = ask_again(observed, request, deadline);
    identities_.complete(observed.nvml, observed.files);
  }
  if (observed.outcome.end == End::complete) whole_ = observed.nvml;
  const End end = observed.outcome.end;
  if (finished && end != End::occupied && end != End::not_started)
    nvidia::note_doubtful(memory(), end == End::complete ? std::set<std::uint32_t>() : observed.nvml.in_progress);
}

// Asks the probe; once more when it crashed, with the GPUs it crashed on read last, so that the others are read. False when it
// is still at work.
bool NvidiaBackend::ask_again(Observed& observed, ProbeRequest& request, SteadyTime deadline) {
  const AnswerFor whom = request.only.empty() ? AnswerFor::all : AnswerFor::asker;
  bool coming = false;
  for (int attempt = 0; attempt < 2; ++attempt) {
    nvidia::RawReading& nvml = observed.nvml = {};
    nvidia::Flow flow(request, deadline);
    auto on_record = [&](std::string_view line) -> std::optional<Millis> {
      nvml.add(line);
      return flow.next_within(nvml);
    };
    auto still_coming = [&] { return coming = flow.still_coming(nvml); };
    auto left = std::max(std::chrono::ceil<Millis>(deadline - SteadyClock::now()), Millis(1));
    observed.outcome = probe_.ask(request.to_line(), left, on_record, whom, still_coming);
    bool crashed_on_some = observed.outcome.end == End::crashed && !nvml.in_progress.empty();
    if (!crashed_on_some || !request.last.empty()) break;
    request.last.assign(nvml.in_progress.begin(), nvml.in_progress.end());
  }
  return !coming;
}

// Puts an answer about some GPUs over the last one about all. False when it is about others than it should be.
bool NvidiaBackend::overlay(Observed& observed, const std::vector<std::uint32_t>& asked) const {
  nvidia::RawReading whole = *whole_;
  for (std::uint32_t index : asked) {
    whole.uses.erase(index);
    const auto now = observed.nvml.identities.find(index);
    if (now == observed.nvml.identities.end()) continue;
    if (now->second.handle == nvidia::abi::ok && now->second.pci != whole.identities[index].pci) return false;
    if (now->second.handle != nvidia::abi::ok) whole.identities[index].handle = now->second.handle;
    if (const auto use = observed.nvml.uses.find(index); use != observed.nvml.uses.end()) whole.uses[index] = use->second;
  }
  if (observed.nvml.driver) whole.driver = observed.nvml.driver;
  whole.garbage = observed.nvml.garbage;
  observed.nvml = std::move(whole);
  return true;
}

std::optional<std::uint64_t> NvidiaBackend::peak_memory_mib(const std::vector<std::string>& gpus, WallTime from, WallTime to,
                                                            Millis patience) {
  const auto may_be_kept = [this](const std::string& uuid) {
    const auto known = accounted_.find(uuid);
    return known == accounted_.end() || known->second;
  };
  if (gpus.empty() || !std::ranges::all_of(gpus, may_be_kept)) return std::nullopt;
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
  const bool told = outcome.end == End::complete &&
                    std::ranges::all_of(answer.accounts, [](const nvidia::RawAccounts& one) { return bool(one.list); });
  if (!told)
    for (const std::string& uuid : gpus) accounted_[uuid] = false;  // until the next reading says otherwise
  return answer.accounts.size() == gpus.size() ? nvidia::peak_memory_mib(answer.accounts, from, to) : std::nullopt;
}

}  // namespace thole::host
