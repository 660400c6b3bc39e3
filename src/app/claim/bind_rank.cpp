#include "app/claim/bind_rank.hpp"

#include <algorithm>

#include "app/claim/bind_running.hpp"
#include "app/claim/outer_claim.hpp"
#include "app/claim/taken_back.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "plan/bind/rank.hpp"

namespace thole::app {

namespace {

std::vector<std::size_t> named_gpus(const Observer& observer, const std::vector<std::string>& words) {
  std::vector<std::size_t> units;
  for (const std::string& word : words)
    for (std::size_t unit : plan::resolve(word, observer.snapshot(), observer.units())) units.push_back(unit);
  return gpus_of(observer.units(), units);
}

std::vector<std::size_t> allotted_gpus(const Observer& observer, const plan::Environment& environment) {
  const plan::Outer outer = plan::outer_allotment(observer.snapshot(), observer.units(), environment);
  if (outer.order.empty())
    throw Error(ErrorCode::usage, outer.named_by.empty() ? "this machine has no GPU to be bound next to"
                                                         : fmt::format("{} allots no GPU of this machine", outer.named_by))
        .hint("see: thole status");
  return gpus_of(observer.units(), outer.order);
}

// The command line's word, else the launcher's.
plan::LocalRank which_rank(const RankRequest& wanted, const plan::Environment& environment) {
  std::optional<plan::LocalRank> rank;
  if (wanted.local_rank) rank = plan::LocalRank{*wanted.local_rank, std::nullopt, ""};
  else rank = plan::local_rank(environment);
  if (!rank)
    throw Error(ErrorCode::usage, "which rank of this machine is it? No launcher's variable says so")
        .hint("--local-rank R --ranks N; one command that no launcher starts is bound by: thole run");
  if (wanted.ranks) rank->ranks = wanted.ranks;
  else if (wanted.local_rank)
    if (const auto said = plan::local_rank(environment)) rank->ranks = said->ranks;
  const std::string name = rank->named_by.empty() ? "--local-rank" : rank->named_by;
  if (!rank->ranks)
    throw Error(ErrorCode::usage, fmt::format("{} {} of how many ranks on this machine?", name, rank->rank)).hint("--ranks N");
  if (*rank->ranks > most_ranks)
    throw Error(ErrorCode::usage, fmt::format("{} says {} on this machine: at most {} can be planned for", name,
                                              plural(*rank->ranks, "rank"), most_ranks));
  if (rank->rank >= *rank->ranks)
    throw Error(ErrorCode::usage, fmt::format("{} {} of {} on this machine: ranks count from 0", name, rank->rank,
                                              plural(*rank->ranks, "rank")));
  return *std::move(rank);
}

struct FoundGpus {
  std::vector<std::size_t> gpus;
  std::string by;
};

FoundGpus gpus_of_process(RankSite& site, pid_t pid, const std::vector<std::string>& on) {
  Observer& observer = site.observer;
  if (!on.empty()) return {named_gpus(observer, on), "--on"};
  const auto& gpus = observer.snapshot().machine.gpus;
  FoundGpus used{{}, "the driver"};
  const auto uses = [pid](const model::Use& use) {
    const auto processes = use.processes.value_or({});
    return std::any_of(processes.begin(), processes.end(),
                       [pid](const model::GpuProcess& process) { return process.pid == pid; });
  };
  for (std::size_t i = 0; i < gpus.size(); ++i)
    if (uses(gpus[i].use) ||
        std::any_of(gpus[i].mig.begin(), gpus[i].mig.end(), [&](const model::Instance& part) { return uses(part.use); }))
      used.gpus.push_back(i);
  if (!used.gpus.empty()) return used;
  const plan::Environment own = site.bind.binder.environment_of(pid);
  const plan::Outer outer = plan::outer_allotment(observer.snapshot(), observer.units(), own);
  if (!outer.named_by.empty() && !outer.order.empty()) return {gpus_of(observer.units(), outer.order), "its " + outer.named_by};
  if (gpus.size() == 1) return {{0}, "the only one"};
  throw Error(ErrorCode::usage,
              fmt::format("next to which GPU? Process {} uses none that the driver shows, and its variables allot none", pid))
      .hint("--on GPU,…");
}

}  // namespace

Rank plan_rank(RankSite& site, const RankRequest& wanted) {
  site.observer.look(site.patience);
  const plan::LocalRank rank = which_rank(wanted, site.environment);
  const auto gpus = wanted.on.empty() ? allotted_gpus(site.observer, site.environment) : named_gpus(site.observer, wanted.on);
  auto ranks = plan::spread(gpus, *rank.ranks, wanted.gpus_per_rank);
  return {plan_binding(site.observer, site.bind, site.environment, wanted.options, std::move(ranks)), rank.rank, rank.named_by};
}

void refuse_taken_around(const RankSite& site, const Rank& rank) {
  if (!names_a_claim(site.environment)) return;
  port::ClaimStore* const claims = site.claims ? site.claims() : nullptr;
  const auto around = claims ? outer_claim(*claims, site.environment) : std::nullopt;
  const auto& gpus = rank.binding.plan.ranks[rank.rank].gpus;
  for (const model::Unit& unit : site.observer.units())
    if (std::ranges::find(gpus, unit.gpu) != gpus.end() &&
        (around ? around->has_lost(unit.key) : !taken_back_around({unit.key}).empty()))
      refuse_taken_back("GPU " + unit.label);
}

void become_rank(port::Processes& processes, const Rank& rank, const std::vector<std::string>& argv, OnReadBack told) {
  port::ProcessSpec spec;
  spec.argv = argv;
  put_into(spec, rank.binding, rank.rank, std::move(told));
  processes.become(spec);
}

Rebound bind_process(RankSite& site, pid_t pid, const model::BindOptions& options, const std::vector<std::string>& on) {
  site.observer.look(site.patience);
  FoundGpus found = gpus_of_process(site, pid, on);
  Rebound rebound;
  rebound.gpus_by = std::move(found.by);
  rebound.binding = plan_binding(site.observer, site.bind, site.environment, options, {std::move(found.gpus)});
  Put put = put_on_cpus(site.bind.binder, pid, rebound.binding, 0);
  rebound.process = std::move(put.process);
  rebound.differences = std::move(put.differences);
  return rebound;
}

}  // namespace thole::app
