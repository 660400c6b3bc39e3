// What a binding plan promises, on every shipped machine, on every real one, and on random ones.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/text.hpp"
#include "model/json.hpp"
#include "plan/bind/bind.hpp"
#include "plan/bind/near.hpp"
#include "support/bound.hpp"
#include "support/random_machine.hpp"
#include "support/shipped_machines.hpp"

namespace thole::test {
namespace {

using model::BindMode;
using model::BindOptions;
using model::BindRefusal;
using model::BindRequest;
using model::BindingPlan;
using model::CpuSet;
using model::Machine;
using model::RankPlan;

// A machine, and which of its CPUs may be used.
struct Masked {
  const Machine& machine;
  std::string name;
  std::optional<CpuSet> allowed;

  CpuSet usable() const {
    const CpuSet online = online_of(machine);
    return allowed ? online & *allowed : online;
  }
};

// A core's number, made up where it has none.
std::map<unsigned, long> cores_of(const Machine& machine) {
  std::map<unsigned, long> cores;
  for (const model::Cpu& cpu : machine.cpus) cores[cpu.id] = cpu.core ? long{*cpu.core} : -1 - static_cast<long>(cpu.id);
  return cores;
}

std::set<long> cores_of(const std::map<unsigned, long>& all, const CpuSet& cpus) {
  std::set<long> cores;
  for (const unsigned cpu : cpus.to_vector()) cores.insert(all.at(cpu));
  return cores;
}

BindRequest one_rank_a_gpu(const Masked& scene, const BindOptions& options) {
  BindRequest request{options, scene.allowed, {}};
  for (std::size_t gpu = 0; gpu < scene.machine.gpus.size(); ++gpu) request.ranks.push_back({gpu});
  return request;
}

// Within the mask, whole cores, never silently something else.
void keeps_the_mask(const Masked& scene, const BindOptions& options, const BindingPlan& plan) {
  const auto core_of = cores_of(scene.machine);
  const CpuSet usable = scene.usable();
  for (const RankPlan& rank : plan.ranks) {
    EXPECT_FALSE(rank.why.empty());
    if (scene.machine.cpus.empty()) continue;
    EXPECT_TRUE((rank.cpus - usable).empty()) << rank.cpus.to_string() << " beyond " << usable.to_string();
    EXPECT_EQ(rank.bound, !rank.cpus.empty());
    EXPECT_EQ(rank.bound, !usable.empty() && !rank.gpus.empty()) << rank.why;
    const std::set<long> mine = cores_of(core_of, rank.cpus);
    EXPECT_EQ(mine.size(), rank.cores);
    std::map<long, CpuSet> whole;
    for (const unsigned cpu : usable.to_vector()) whole[core_of.at(cpu)].add(cpu);
    CpuSet expected;
    for (const long core : mine)
      for (const unsigned cpu : whole[core].to_vector()) {
        expected.add(cpu);
        if (options.smt == model::Smt::one) break;
      }
    EXPECT_EQ(rank.cpus.to_string(), expected.to_string()) << "not whole cores";
  }
}

CpuSet near_gpu(const Machine& machine, std::size_t gpu) {
  const auto node = plan::near_node(machine, machine.gpus[gpu]);
  return node ? *node : plan::near_package(machine, machine.gpus[gpu]).value_or(CpuSet());
}

// Whether each rank can have a near core to itself; where nothing near is usable, one of its package, else any.
class OneCoreEach {
 public:
  explicit OneCoreEach(std::vector<std::set<long>> wanted) : wanted_(std::move(wanted)) {}

  bool possible() {
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      std::set<long> asked;
      if (!seat(i, asked)) return false;
    }
    return true;
  }

 private:
  bool seat(std::size_t i, std::set<long>& asked) {
    for (const long core : wanted_[i]) {
      if (!asked.insert(core).second) continue;
      const auto other = holder_.find(core);
      if (other != holder_.end() && !seat(other->second, asked)) continue;
      holder_[core] = i;
      return true;
    }
    return false;
  }

  std::vector<std::set<long>> wanted_;
  std::map<long, std::size_t> holder_;
};

// Near where that can be, else it is said; different GPUs' cores apart; nothing that was promised is lost.
void divides_fairly(const Masked& scene, const BindOptions& options, const BindingPlan& plan) {
  if (scene.machine.cpus.empty()) return;
  const auto core_of = cores_of(scene.machine);
  const CpuSet usable = scene.usable();
  std::set<long> near_some;
  std::vector<std::set<long>> near, widest;     // widest: what the GPU can have at all
  for (std::size_t gpu = 0; gpu < scene.machine.gpus.size(); ++gpu) {
    near.push_back(cores_of(core_of, near_gpu(scene.machine, gpu) & usable));
    near_some.insert(near.back().begin(), near.back().end());
    const auto package = plan::near_package(scene.machine, scene.machine.gpus[gpu]);
    widest.push_back(near.back());
    if (widest.back().empty() && package) widest.back() = cores_of(core_of, *package & usable);
    if (widest.back().empty()) widest.back() = cores_of(core_of, usable);
  }
  std::set<long> taken, shared;
  for (const RankPlan& rank : plan.ranks)
    for (const long core : cores_of(core_of, rank.cpus)) {
      if (!taken.insert(core).second) shared.insert(core);
      const bool its_own = near[rank.gpus[0]].contains(core), lent = options.lend && !near_some.contains(core);
      EXPECT_TRUE(its_own || lent || rank.degraded) << "rank " << rank.rank << " has far cores without a word: " << rank.why;
    }
  for (const RankPlan& rank : plan.ranks) {
    const std::set<long> mine = cores_of(core_of, rank.cpus), &own = near[rank.gpus[0]];
    const bool some_near = std::any_of(mine.begin(), mine.end(), [&](long core) { return own.contains(core); });
    EXPECT_TRUE(some_near || own.empty()) << "rank " << rank.rank << " has no near core though there are some: " << rank.why;
  }
  if (OneCoreEach(widest).possible()) {
    EXPECT_TRUE(shared.empty()) << "a core is in two ranks though each could have one of its own";
  }
  for (const RankPlan& rank : plan.ranks)
    for (const long core : cores_of(core_of, rank.cpus))
      if (shared.contains(core)) {
        EXPECT_TRUE(rank.degraded) << rank.why;
      }
  if (options.balanced) return;
  for (const long core : options.lend && !plan.ranks.empty() ? cores_of(core_of, usable) : near_some)
    EXPECT_TRUE(taken.contains(core)) << "core " << core << " is lost";
}

// Another order of listing changes nothing.
void ignores_order(const Masked& scene, const BindRequest& request, const BindingPlan& plan, Dice& dice) {
  Machine other = scene.machine;
  const auto shuffle = [&](auto& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[dice.roll(static_cast<unsigned>(i))]);
  };
  shuffle(other.cpus);
  shuffle(other.numa);
  for (model::Gpu& gpu : other.gpus) shuffle(gpu.links);
  const BindingPlan again = planned(other, request);
  EXPECT_EQ(again, plan);
}

// What a GPU's rank gets does not depend on who else asks.
void ignores_others(const Masked& scene, const BindRequest& request, const BindingPlan& plan) {
  for (std::size_t gpu = 0; gpu < plan.ranks.size(); ++gpu) {
    BindRequest alone = request;
    alone.ranks = {{gpu}};
    const BindingPlan one = planned(scene.machine, alone);
    EXPECT_EQ(one.ranks[0].cpus.to_string(), plan.ranks[gpu].cpus.to_string());
  }
}

// Fewer ranks, or fewer cores, never fail where more succeed.
void grows_harder(const Masked& scene, BindRequest request, Dice& dice) {
  request.options.strict = true;
  for (bool succeeded = false; !request.ranks.empty();) {
    const bool succeeds = std::holds_alternative<BindingPlan>(plan::bind(scene.machine, request));
    EXPECT_TRUE(succeeds || !succeeded) << request.ranks.size() << " ranks fail where one more did not";
    succeeded = succeeds;
    request.ranks.erase(request.ranks.begin() + dice.roll(static_cast<unsigned>(request.ranks.size())));
    if (request.options.cores > 1) request.options.cores -= dice.roll(2);
  }
}

// core:N: so many cores for each rank as there are, and none is shared while one is idle.
void counts_cores(const Masked& scene, const BindRequest& request, const BindingPlan& plan) {
  const auto core_of = cores_of(scene.machine);
  const std::set<long> usable = cores_of(core_of, scene.usable());
  std::map<long, int> uses;
  for (const RankPlan& rank : plan.ranks) {
    const std::set<long> mine = cores_of(core_of, rank.cpus);
    EXPECT_EQ(mine.size(), std::min<std::size_t>(request.options.cores, usable.size())) << rank.why;
    for (const long core : mine) ++uses[core];
  }
  const bool shared = std::ranges::any_of(uses, [](const auto& use) { return use.second > 1; });
  EXPECT_TRUE(!shared || uses.size() == usable.size())
      << uses.size() << " of " << usable.size() << " cores used, and some shared";
}

const BindMode modes[] = {BindMode::none, BindMode::node, BindMode::package, BindMode::exclusive, BindMode::l3, BindMode::core};

void check(const Masked& scene, Dice& dice) {
  SCOPED_TRACE(scene.name + ", allowed " + (scene.allowed ? scene.allowed->to_string() : "all"));
  BindOptions options;
  options.smt = dice.one_in(3) ? model::Smt::one : model::Smt::all;
  options.lend = dice.one_in(2);
  options.memory = dice.one_in(2) ? model::MemoryPolicy::preferred : model::MemoryPolicy::interleave;
  options.mode = BindMode::exclusive;
  BindRequest request = one_rank_a_gpu(scene, options);
  const BindingPlan exclusive = planned(scene.machine, request);
  keeps_the_mask(scene, options, exclusive);
  divides_fairly(scene, options, exclusive);
  ignores_order(scene, request, exclusive, dice);
  ignores_others(scene, request, exclusive);
  for (const RankPlan& rank : exclusive.ranks)
    for (const int node : rank.memory_nodes)
      EXPECT_TRUE(
          std::any_of(scene.machine.cpus.begin(), scene.machine.cpus.end(), [&](const auto& cpu) { return cpu.numa == node; }))
          << "memory on node " << node << ", which has no CPU";

  for (const BindMode mode : modes) {
    SCOPED_TRACE(to_string(mode));
    options.mode = mode;
    options.cores = 1 + dice.roll(6);
    options.balanced = dice.one_in(4);
    options.widen = dice.one_in(2);
    request = one_rank_a_gpu(scene, options);
    while (!request.ranks.empty() && dice.one_in(2))
      request.ranks.push_back({dice.roll(static_cast<unsigned>(scene.machine.gpus.size()))});
    while (mode == BindMode::core && !request.ranks.empty() && dice.one_in(2))   // ranks of several GPUs
      request.ranks[dice.roll(static_cast<unsigned>(request.ranks.size()))].push_back(
          dice.roll(static_cast<unsigned>(scene.machine.gpus.size())));
    if (mode != BindMode::none) keeps_the_mask(scene, options, planned(scene.machine, request));
    if (mode == BindMode::core) counts_cores(scene, request, planned(scene.machine, request));
    grows_harder(scene, request, dice);
  }
}

void check_masks(const Machine& machine, const std::string& name, Dice& dice) {
  const CpuSet online = online_of(machine);
  check({machine, name, std::nullopt}, dice);
  check({machine, name, some_of(online, 50, dice)}, dice);
  check({machine, name, some_of(online, 12, dice)}, dice);
  if (!machine.gpus.empty()) check({machine, name, near_gpu(machine, 0)}, dice);
}

TEST(BindProperties, HoldOnEveryShippedMachine) {
  Dice dice(1);
  for (const auto& [name, machine] : shipped_machines()) check_masks(machine, name, dice);
}

RC_GTEST_PROP(BindProperties, HoldOnRandomMachines, ()) {
  const auto seed = *rc::gen::arbitrary<std::uint32_t>();
  Dice dice(seed);
  const Machine machine = random_machine(seed);
  const bool before = testing::Test::HasFailure();
  check_masks(machine, fmt::format("machine of seed {}", seed), dice);
  RC_ASSERT(before || !testing::Test::HasFailure());
}

}  // namespace
}  // namespace thole::test
