#include "host/drm/backend.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <mutex>
#include <set>

#include "base/text.hpp"
#include "host/gpu/process_names.hpp"
#include "model/json.hpp"

namespace thole::host {

namespace {

using End = ProbeOutcome::End;

constexpr Millis after_the_first{1'000};   // all are read at once, so the last is no later than this after the first
constexpr const char *ask_use = "read", *ask_memory = "read memory";  // the questions to a probe
constexpr int leave_after_ms = 10'000;     // a probe that nobody asks

model::Gpu* find(std::vector<model::Gpu>& gpus, const std::string& key) {
  auto found = std::find_if(gpus.begin(), gpus.end(), [&](const model::Gpu& gpu) { return gpu.key() == key; });
  return found == gpus.end() ? nullptr : &*found;
}

// What an observation adds to a GPU known from safe files. Health found by permissions stays: it says what the user can mend.
void add_observed(model::Gpu& gpu, model::Gpu observed) {
  gpu.use = std::move(observed.use);
  if (!gpu.memory_mib) gpu.memory_mib = observed.memory_mib;
  if (gpu.health != model::Health::ok) return;
  gpu.health = observed.health;
  gpu.health_reason = std::move(observed.health_reason);
}

std::optional<model::Gpu> parse(std::string_view line) {
  try {
    return model::gpu_from_json(model::parse_json(std::string(line), "the probe's answer"), "");
  } catch (const std::exception&) {
    return std::nullopt;                   // a probe of another version left its last answer behind
  }
}

std::string describe(const ProbeOutcome& outcome, const std::string& vendor) {
  const std::string who = "reading the " + vendor + " driver's files: ";
  switch (outcome.end) {
    case End::complete: return who + "some GPUs are missing from the answer";
    case End::timed_out: return who + outcome.detail + "; see dmesg, a GPU may need a reset";
    case End::crashed: return who + "the probe failed, " + outcome.detail;
    case End::occupied: return who + outcome.detail;
    case End::not_started: return who + outcome.detail + "; who uses the GPUs is not known";
  }
  return "";
}

}  // namespace

FileBackend::FileBackend(const FileVendor& vendor, FileOptions options)
    : vendor_(vendor),
      options_(std::move(options)),
      tree_(options_.root),
      probe_({options_.program, {"__probe", FileBackend::name()}, options_.runtime_dir, "probe-" + FileBackend::name()}),
      kept_(options_.runtime_dir, FileBackend::name() + "-memory") {}

port::Reading FileBackend::read(Millis patience, const port::Question&) {
  if (std::string now = vendor_.generation(tree_); generation_ != now) {
    identified_ = vendor_.identify(tree_);
    generation_ = std::move(now);
    recall_memories();
  }
  port::Reading reading;
  reading.gpus = identified_;
  reading.observation.backend = name();
  reading.observation.source = vendor_.source;
  reading.observation.problem = vendor_.problem(tree_);
  reading.observation.pids_foreign = in_pid_namespace(tree_);
  if (reading.gpus.empty()) return reading;
  if (tree_.live()) {
    ask(reading, patience);
  } else {
    vendor_.observe(tree_, memory_wanted(), [&](model::Gpu observed) {
      if (model::Gpu* gpu = find(reading.gpus, observed.key())) add_observed(*gpu, std::move(observed));
    });
  }
  learn_memories(reading.gpus);
  if (!reading.observation.pids_foreign) name_processes(tree_, reading.gpus);
  return reading;
}

bool FileBackend::memory_wanted() const {
  return std::ranges::any_of(identified_, [](const model::Gpu& gpu) { return !gpu.memory_mib; });
}

// What was asked of a driver once is not asked again in this boot, as long as the same GPUs are there.
void FileBackend::recall_memories() {
  boot_ = tree_.text("/proc/sys/kernel/random/boot_id").value_or("");
  const auto text = memory_wanted() && !boot_.empty() ? kept_.find(boot_ + " " + *generation_) : std::nullopt;
  if (!text) return;
  for (std::string_view line : split_lines(*text))
    if (const auto words = split(line, ' '); words.size() == 2)
      if (model::Gpu* gpu = find(identified_, std::string(words[0])); gpu && !gpu->memory_mib)
        gpu->memory_mib = parse_u64(words[1]);
}

void FileBackend::learn_memories(const std::vector<model::Gpu>& gpus) {
  bool learned = false;
  std::string text;
  for (const model::Gpu& gpu : gpus) {
    if (!gpu.memory_mib) continue;
    text += fmt::format("{} {}\n", gpu.key(), *gpu.memory_mib);
    if (model::Gpu* known = find(identified_, gpu.key()); known && !known->memory_mib) {
      known->memory_mib = gpu.memory_mib;
      learned = true;
    }
  }
  if (learned && !boot_.empty()) kept_.keep(boot_ + " " + *generation_, text);
}

void FileBackend::ask(port::Reading& reading, Millis patience) {
  std::set<std::string> answered;
  auto take = [&](std::string_view line, bool now) {
    auto observed = parse(line);
    model::Gpu* gpu = observed ? find(reading.gpus, observed->key()) : nullptr;
    if (!gpu || (!now && answered.contains(gpu->key()))) return;
    if (now) answered.insert(gpu->key());
    add_observed(*gpu, std::move(*observed));
  };
  const char* question = memory_wanted() ? ask_memory : ask_use;
  ProbeOutcome outcome = probe_.ask(question, patience, [&](std::string_view line) -> std::optional<Millis> {
    take(line, true);
    return after_the_first;
  });
  const bool all = answered.size() == reading.gpus.size();
  if (outcome.end == End::complete && all) return;
  model::Observation& observation = reading.observation;
  if (observation.problem.empty()) observation.problem = describe(outcome, name());
  if (all) return;
  observation.answered = false;
  if (auto last = probe_.last_answer()) {
    for (const std::string& line : last->lines) take(line, false);
    if (answered.empty()) observation.age = last->age;     // else only what is marked as not answering is old
  }
  for (model::Gpu& gpu : reading.gpus) {
    if (answered.contains(gpu.key()) || gpu.health != model::Health::ok) continue;
    const bool tried = outcome.end != End::not_started && outcome.end != End::complete;
    gpu.health = tried ? model::Health::hung : model::Health::unreadable;
    gpu.health_reason = outcome.detail.empty() ? "the probe did not report it" : outcome.detail;
  }
}

int serve_probe(const FileVendor& vendor, ProbeChannel channel) {
  // This thread may get stuck in the driver, where it would not notice that nobody waits for it any more.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::mutex sending;
  for (;;) {
    while (const auto question = channel.next_line()) {
      vendor.observe(Tree(), *question == ask_memory, [&](model::Gpu observed) {
        std::lock_guard guard(sending);
        channel.send(model::dump(model::to_json(observed), -1));
      });
      channel.end_answer();
    }
    pollfd p{channel.read_fd(), POLLIN, 0};
    if (::poll(&p, 1, leave_after_ms) <= 0 || !channel.fill()) return 0;
  }
}

}  // namespace thole::host
