#include "plan/bind/rank.hpp"

#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::plan {

namespace {

const std::string* filled(const Environment& environment, const std::string& name) {
  const auto it = environment.find(name);
  return it == environment.end() || it->second.empty() ? nullptr : &it->second;
}

std::optional<unsigned> number(std::string_view text) {
  const auto value = parse_u64(trim(text));
  if (!value || *value > std::numeric_limits<unsigned>::max() / 2) return std::nullopt;
  return static_cast<unsigned>(*value);
}

std::optional<unsigned> number_of(const Environment& environment, const std::string& name) {
  const std::string* text = filled(environment, name);
  if (!text) return std::nullopt;
  const auto value = number(*text);
  if (!value) throw Error(ErrorCode::usage, fmt::format("{}: expected a number, got \"{}\"", name, printable(*text, 40)));
  return value;
}

// A step has its own tasks within the job's; the last is what the user asked for, and a plain number.
std::optional<unsigned> slurm_ranks(const Environment& environment) {
  const std::size_t node = number_of(environment, "SLURM_NODEID").value_or(0);
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
    if (const std::string* list = filled(environment, name))
      if (const auto tasks = tasks_of_node(*list, node)) return tasks;
  return number_of(environment, "SLURM_NTASKS_PER_NODE");
}

struct Names { const char *rank, *ranks; };
constexpr Names launchers[] = {
    {"LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    {"SLURM_LOCALID", nullptr},
};

}  // namespace

std::optional<unsigned> tasks_of_node(std::string_view list, std::size_t node) {
  for (std::string_view part : split(list, ',')) {
    std::size_t repeats = 1;
    const std::size_t open = part.find("(x");
    if (open != std::string_view::npos) {
      if (!part.ends_with(')')) return std::nullopt;
      const auto count = number(part.substr(open + 2, part.size() - open - 3));
      if (!count) return std::nullopt;
      repeats = *count;
      part = part.substr(0, open);
    }
    if (node < repeats) return number(part);
    node -= repeats;
  }
  return std::nullopt;
}

std::optional<LocalRank> local_rank(const Environment& environment) {
  for (const Names& launcher : launchers) {
    const auto rank = number_of(environment, launcher.rank);
    if (!rank) continue;
    LocalRank found{*rank, launcher.ranks ? number_of(environment, launcher.ranks) : slurm_ranks(environment), launcher.rank};
    return found;
  }
  return std::nullopt;
}

std::vector<std::vector<std::size_t>> spread(const std::vector<std::size_t>& gpus, unsigned ranks, unsigned each) {
  std::vector<std::vector<std::size_t>> result(ranks);
  if (gpus.empty()) return result;
  for (unsigned rank = 0; rank < ranks; ++rank)
    for (unsigned i = 0; i < each && i < gpus.size(); ++i)
      result[rank].push_back(gpus[(std::size_t{rank} * each + i) % gpus.size()]);
  return result;
}

}  // namespace thole::plan
