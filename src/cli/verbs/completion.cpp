// The machinery behind completion: `thole completion SHELL` and `thole __complete WORD...`.
#include <grp.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "app/queue/job_list.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "cli/configuration.hpp"
#include "cli/jupyter_kernels.hpp"
#include "cli/line/complete.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/output.hpp"
#include "cli/show/render.hpp"
#include "wire/init.hpp"
#include "wire/queue.hpp"

namespace thole::cli {

namespace {

constexpr std::size_t longest_name = 512;
constexpr Millis patience_at_a_key{500};  // with the driver, while somebody waits for a key to answer

// What only the machine knows: its GPUs, its claims.
class Here {
 public:
  Here(const Unfinished& line, const wire::Config& config) : line_(line), config_(config) {}

  std::vector<Candidate> candidates() {
    switch (line_.offer) {
      case Offer::gpus: add_gpus(); break;
      case Offer::models: add_models(); break;
      case Offer::machines: add_machines(); break;
      case Offer::claims: add_claims(); break;
      case Offer::groups: add_groups(); break;
      case Offer::jobs: add_jobs(); break;
      case Offer::kernels: add_kernels(); break;
      default: break;
    }
    return std::move(all_);
  }

 private:
  void add(const std::string& text, std::string says = "") {
    if (text.empty() || !text.starts_with(line_.typed)) return;
    if (printable(text, longest_name) != text) return;   // not to be typed, and nothing for a terminal
    all_.push_back({std::string(line_.before) + text, printable(says, 60)});
  }

  void add_gpus() {
    wire::Wire wire(config_.settings);
    const model::Snapshot& snapshot = wire.observer().look(patience_at_a_key);
    const bool by_uuid = line_.typed.starts_with("GPU-") || line_.typed.starts_with("MIG-");
    for (const model::Unit& unit : wire.observer().units())
      add(by_uuid ? unit.key : unit.label, short_model(unit.model_of(snapshot.machine)));
  }

  void add_models() {
    wire::Wire wire(config_.settings);
    std::vector<std::string> seen;
    for (const model::Gpu& gpu : wire.observer().look(patience_at_a_key).machine.gpus) {
      const std::string name = short_model(gpu.model);
      const std::string word = name.substr(0, name.find_first_of(" -"));  // "A100": what people type
      if (std::find(seen.begin(), seen.end(), word) == seen.end()) add(word, gpu.model);
      seen.push_back(word);
    }
  }

  void add_machines() {
    for (const std::string& name : wire::machine_names(config_.settings)) add(name, "simulated machine");
  }

  void add_claims() {
    wire::Wire wire(config_.settings);
    port::ClaimStore* store = wire.find_store();
    if (!store) return;
    std::vector<std::string> seen;
    for (const model::Holding& holding : store->holdings()) {
      if (holding.uid != config_.settings.uid || std::find(seen.begin(), seen.end(), holding.id) != seen.end()) continue;
      add(holding.id, holding.command);
      seen.push_back(holding.id);
    }
  }

  // By number with what it is, and by name.
  void add_jobs() {
    constexpr std::uint64_t most = 200;
    wire::Wire wire(config_.settings);
    wire::Queue* queue = wire.find_queue();
    if (!queue) return;
    port::JobQuery query;
    query.newest_first = true;
    query.limit = most;
    std::vector<std::string> seen;
    for (const model::Job& job : queue->jobs().jobs(query)) {
      add(std::to_string(job.id), fmt::format("{}, {}", app::state_of(job), job.name.empty() ? job.command : job.name));
      if (!job.name.empty() && std::find(seen.begin(), seen.end(), job.name) == seen.end()) add(job.name, job.command);
      seen.push_back(job.name);
    }
  }

  void add_kernels() {
    if (line_.first == "remove")
      for (const auto& kernel : jupyter_kernels(wire::DirectoryPaths(config_.settings).jupyter_kernels())) add(kernel.name);
  }

  void add_groups() {
    ::setgrent();
    while (const group* entry = ::getgrent()) add(entry->gr_name);
    ::endgrent();
  }

  const Unfinished& line_;
  const wire::Config& config_;
  std::vector<Candidate> all_;
};

std::string kind_of(const Unfinished& line) {
  switch (line.offer) {
    case Offer::files: return "files";
    case Offer::directories: return "directories";
    case Offer::command: return fmt::format("command {}", line.command);
    default: return "words";
  }
}

int completion(const Invocation& invocation) {
  const std::string& shell = invocation.words.front();
  const std::string_view script = completion_script(shell);
  if (script.empty()) throw_unknown("completion: unknown shell", shell, {"bash", "zsh", "fish"}, "one of bash, zsh, fish");
  give_bytes(script);
  return 0;
}

int complete(const Invocation& invocation) {
  const std::vector<std::string_view> words(invocation.words.begin(), invocation.words.end());
  const Unfinished line = look_at(words);
  std::string text = kind_of(line) + "\n";
  wire::Config here = configuration(invocation);
  // The line being completed may name another machine.
  for (std::size_t i = 0; i + 1 < words.size(); ++i)
    if (words[i] == "--machine" && i + 2 < words.size())
      here.settings.machine = words[i + 1];
    else if (words[i].starts_with("--machine="))
      here.settings.machine = words[i].substr(10);
    else if (words[i] == "--queue-dir" && i + 2 < words.size())
      here.settings.queue_dir = words[i + 1];
    else if (words[i].starts_with("--queue-dir="))
      here.settings.queue_dir = words[i].substr(12);
  for (const std::vector<Candidate>& some : {candidates(line), Here(line, here).candidates()})
    for (const Candidate& candidate : some) text += fmt::format("{}\t{}\n", candidate.text, candidate.says);
  give_bytes(text);
  return 0;
}

}  // namespace

extern constexpr Verb completion_verb = {
    .name = "completion",
    .summary = "print the completion script for a shell",
    .operands = "bash|zsh|fish",
    .min_words = 1,
    .max_words = 1,
    .run_alone = completion,
};

extern constexpr Verb complete_verb = {
    .name = "__complete",
    .summary = "what completion asks",
    .raw = true,
    .run_alone = complete,
};

}  // namespace thole::cli
