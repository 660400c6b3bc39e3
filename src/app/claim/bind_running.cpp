#include "app/claim/bind_running.hpp"

#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/bind/rank.hpp"

namespace thole::app {

Put put_on_cpus(port::Binder& binder, pid_t pid, const Binding& binding, std::size_t rank) {
  const plan::Effect& effect = binding.effects[rank];
  if (!effect.binding.cpus)
    throw Error(ErrorCode::unavailable, fmt::format("process {} was not bound: {}", pid,
                                                    effect.absent_cpus.empty() ? binding.plan.ranks[rank].why
                                                                               : "this host has none of the simulated CPUs " +
                                                                                     effect.absent_cpus.to_string()));
  Put put;
  put.process = binder.bind_process(pid, *effect.binding.cpus);
  for (const auto& [mask, threads] : put.process.masks) {
    model::Bound bound;
    bound.got.cpus = mask;
    for (const std::string& difference : plan::differences({effect.binding.cpus, std::nullopt, {}}, bound))
      put.differences.push_back(fmt::format("{} of {} threads: {}", threads, put.process.threads, difference));
  }
  if (binding.options.strict && !put.differences.empty())
    throw Error(ErrorCode::unavailable, fmt::format("process {} is not bound as asked: {}", pid, join(put.differences, "; ")));
  return put;
}

BoundHere bind_this_process(RankSite& site, pid_t self, RankRequest wanted) {
  const bool alone = !wanted.local_rank && !wanted.ranks && !plan::local_rank(site.environment);
  if (alone) {
    wanted.local_rank = 0;
    wanted.ranks = 1;
    wanted.gpus_per_rank = std::numeric_limits<unsigned>::max();
  }
  Rank rank = plan_rank(site, wanted);
  Put put = put_on_cpus(site.bind.binder, self, rank.binding, rank.rank);
  std::string gpus_by = alone ? "what it may see" : rank.named_by.empty() ? "its rank" : std::move(rank.named_by);
  return {{std::move(rank.binding), std::move(gpus_by), std::move(put.process), std::move(put.differences)}, rank.rank};
}

}  // namespace thole::app
