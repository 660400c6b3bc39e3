#include "cli/show/render_binding.hpp"

#include <set>

#include "base/text.hpp"
#include "base/words.hpp"

namespace thole::cli {

namespace {

using model::MemoryPolicy;

std::string cpu_line(const model::RankPlan& rank) {
  if (!rank.bound) return rank.why;
  return fmt::format("CPUs {} ({}): {}", rank.cpus.to_string(), plural(rank.cores, "core"), rank.why);
}

std::string numbers(const std::vector<int>& nodes) {
  std::vector<std::string> words;
  for (int node : nodes) words.push_back(std::to_string(node));
  return join(words, ",");
}

// What a simulated machine has and this host has not; nothing where they are one.
std::string absent_line(const model::CpuSet& cpus, const std::vector<int>& nodes) {
  std::vector<std::string> things;
  if (!cpus.empty()) things.push_back("CPUs " + cpus.to_string());
  if (!nodes.empty()) things.push_back("memory nodes " + numbers(nodes));
  return things.empty() ? "" : fmt::format("simulated: {} {} not on this host and left out", join(things, " and "),
                                           cpus.size() + nodes.size() == 1 ? "is" : "are");
}

std::string memory_line(MemoryPolicy policy, const std::vector<int>& nodes) {
  if (policy == MemoryPolicy::first_touch || nodes.empty()) return "memory where it is first touched";
  return fmt::format("memory {} on node{} {}", to_string(policy), nodes.size() == 1 ? "" : "s", numbers(nodes));
}

std::string line_of(const std::string& text) { return "  " + printable(text); }

std::vector<std::string> describe_rank(const app::Binding& binding, std::size_t index) {
  const model::RankPlan& rank = binding.plan.ranks[index];
  const plan::Effect& effect = binding.effects[index];
  std::vector<std::string> lines{line_of(cpu_line(rank)), line_of(memory_line(rank.memory, rank.memory_nodes))};
  if (!rank.nics.empty())
    lines.push_back(line_of(fmt::format("NIC{} {}", rank.nics.size() == 1 ? "" : "s", join(rank.nics, ", "))));
  if (rank.threads) lines.push_back(line_of(plural(*rank.threads, "thread") + " for OpenMP and its like"));
  for (const std::string& lack : effect.lacks) lines.push_back(line_of("but " + lack));
  for (const std::string& kept : effect.kept) lines.push_back(line_of(kept));
  return lines;
}

}  // namespace

std::vector<std::string> describe_binding(const app::Binding& binding, std::size_t index) {
  std::vector<std::string> lines = describe_rank(binding, index);
  const plan::Effect& effect = binding.effects[index];
  if (const std::string absent = absent_line(effect.absent_cpus, effect.absent_nodes); !absent.empty())
    lines.push_back(line_of(absent));
  return lines;
}

std::string render_ranks(const app::Binding& binding) {
  std::string text;
  model::CpuSet absent_cpus;                     // said once, not for each rank
  std::set<int> absent_nodes;
  for (std::size_t i = 0; i < binding.plan.ranks.size(); ++i) {
    std::vector<std::string> gpus;
    for (std::size_t gpu : binding.plan.ranks[i].gpus) gpus.push_back(std::to_string(gpu));
    text += fmt::format("rank {}, {}\n", i, gpus.empty() ? "no GPU" : "GPU " + join(gpus, ","));
    for (const std::string& line : describe_rank(binding, i)) text += line + "\n";
    absent_cpus = absent_cpus | binding.effects[i].absent_cpus;
    absent_nodes.insert(binding.effects[i].absent_nodes.begin(), binding.effects[i].absent_nodes.end());
  }
  const std::string absent = absent_line(absent_cpus, {absent_nodes.begin(), absent_nodes.end()});
  return absent.empty() ? text : text + absent + "\n";
}

std::string describe(const model::Binding& got) {
  std::vector<std::string> things;
  if (got.cpus) things.push_back("CPUs " + got.cpus->to_string());
  if (got.memory) things.push_back(memory_line(*got.memory, got.memory_nodes));
  return join(things, ", ");
}

std::string render_rebound(const app::Rebound& rebound, pid_t pid) {
  const model::RankPlan& rank = rebound.binding.plan.ranks.front();
  std::vector<std::string> masks;
  for (const auto& [mask, threads] : rebound.process.masks) masks.push_back(mask.to_string());
  std::string text = fmt::format("process {}: {} on CPUs {}, {}\n", pid, plural(rebound.process.threads, "thread"),
                                 join(masks, " and "), printable(rank.why));
  const plan::Effect& effect = rebound.binding.effects.front();
  if (const std::string absent = absent_line(effect.absent_cpus, {}); !absent.empty()) text += line_of(absent) + "\n";
  for (const std::string& difference : rebound.differences) text += line_of("but " + difference) + "\n";
  return text;
}

}  // namespace thole::cli
