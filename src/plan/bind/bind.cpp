// How this works. The usable cores are found once. Modes node and package take the territory of each GPU; the others give each
// GPU of the machine a share, of which the ranks on it get equal runs. A rank gets the union over its GPUs. What could not
// be had as asked makes the rank degraded; strict turns the first such rank into a refusal.
#include "plan/bind/bind.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "plan/bind/cores.hpp"
#include "plan/bind/counted.hpp"
#include "plan/bind/memory.hpp"
#include "plan/bind/near.hpp"
#include "plan/bind/nics.hpp"
#include "plan/bind/shares.hpp"
#include "plan/compat/compat.hpp"

namespace thole::plan {

using model::BindingPlan;
using model::BindMode;
using model::BindOptions;
using model::BindRefusal;
using model::BindRequest;
using model::Machine;
using model::RankPlan;

namespace {

using Gpus = std::vector<std::size_t>;

void unite(CoreList& cores, const CoreList& more) {
  CoreList both;
  std::set_union(cores.begin(), cores.end(), more.begin(), more.end(), std::back_inserter(both));
  cores = std::move(both);
}

void note(std::vector<std::string>& sentences, const std::string& sentence) {
  if (!sentence.empty() && std::find(sentences.begin(), sentences.end(), sentence) == sentences.end())
    sentences.push_back(sentence);
}

// What one rank gets while it is put together, GPU by GPU.
struct Draft {
  CoreList cores;
  std::vector<std::string> whys, lacks;

  void add(const Share& share) {
    unite(cores, share.cores);
    note(whys, share.why);
    note(lacks, share.lack);
  }
};

// The default's "node" is the package where a node is so crowded with GPUs that it would waste the rest of the machine.
class Widening {
 public:
  Widening(const Machine& machine, bool wanted)
      : machine_(machine), wanted_(wanted && !machine.gpus.empty()),
        cores_(wanted_ ? machine : Machine(), std::nullopt, model::Reserve()) {}

  // Why the package is taken for this GPU; "" where the node is wide enough.
  std::string reason(std::size_t gpu) const {
    if (!wanted_) return "";
    const auto node = near_node(machine_, machine_.gpus[gpu]), package = near_package(machine_, machine_.gpus[gpu]);
    if (!node || !package) return "";
    const CoreList near = cores_.in(*node);
    std::size_t sharers = 0;
    for (const model::Gpu& other : machine_.gpus) {
      const auto there = near_node(machine_, other);
      sharers += there && !(*there & *node).empty();
    }
    const std::size_t all = cores_.all().size(), gpus = machine_.gpus.size();
    if (near.empty() || near.size() * gpus >= all * sharers || cores_.in(*package).size() <= near.size()) return "";
    return fmt::format("{} has {} cores for {}, less than the machine's {} for {}", cores_.place_of(near), near.size(),
                       sharers == 1 ? "1 GPU" : fmt::format("{} GPUs", sharers), all, gpus);
  }

 private:
  const Machine& machine_;
  bool wanted_;
  Cores cores_;
};

std::vector<Draft> by_territory(const Machine& machine, const BindRequest& request, const Cores& cores) {
  const Widening widening(machine, request.options.widen && request.options.mode == BindMode::node);
  std::vector<Draft> drafts(request.ranks.size());
  for (std::size_t rank = 0; rank < drafts.size(); ++rank)
    for (const std::size_t gpu : request.ranks[rank]) {
      const std::string widened = widening.reason(gpu);
      const bool node = request.options.mode == BindMode::node && widened.empty();
      const Territory near = territory(machine, gpu, node ? Reach::node : Reach::package, cores);
      std::string why = cores.place_of(near.cores);
      if (!widened.empty()) why += ": " + widened;
      drafts[rank].add({near.cores, why, near.lack});
    }
  return drafts;
}

// Ranks on one GPU (one at least), in order, get runs of its share. With more ranks than cores some share a core.
void cut_among(const Share& share, const std::vector<std::size_t>& ranks, std::size_t gpu, const Cores& cores,
               std::vector<Draft>& drafts) {
  const std::vector<CoreList> runs = cut(share.cores, ranks.size(), cores);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    Share part = share;
    part.cores = runs[i];
    if (ranks.size() > 1) part.why += fmt::format(", cut among {} ranks on GPU {}", ranks.size(), gpu);
    if (ranks.size() > share.cores.size() && !share.cores.empty()) {
      part.cores = {share.cores[i % share.cores.size()]};
      part.lack = fmt::format("more ranks than cores: {} ranks on GPU {} share {}", ranks.size(), gpu,
                              share.cores.size() == 1 ? "1 core" : fmt::format("{} cores", share.cores.size()));
    }
    drafts[ranks[i]].add(part);
  }
}

std::vector<Draft> by_share(const Machine& machine, const BindRequest& request, const Cores& cores) {
  const BindOptions& options = request.options;
  const std::vector<Share> shares = options.mode == BindMode::l3 ? by_cache(machine, cores) : divide(machine, cores, options);
  std::vector<std::vector<std::size_t>> ranks_of(machine.gpus.size());
  for (std::size_t rank = 0; rank < request.ranks.size(); ++rank)
    for (const std::size_t gpu : request.ranks[rank]) ranks_of[gpu].push_back(rank);
  std::vector<Draft> drafts(request.ranks.size());
  if (options.mode != BindMode::core) {
    for (std::size_t gpu = 0; gpu < shares.size(); ++gpu)
      if (!ranks_of[gpu].empty()) cut_among(shares[gpu], ranks_of[gpu], gpu, cores, drafts);
    return drafts;
  }
  const auto counts = counted(machine, request.ranks, shares, options.cores, cores);
  for (std::size_t rank = 0; rank < drafts.size(); ++rank)
    for (const Share& share : counts[rank]) drafts[rank].add(share);
  return drafts;
}

std::variant<std::vector<Draft>, BindRefusal> like_gpu_affinity(const Machine& machine, const BindRequest& request,
                                                                std::vector<model::CpuSet>& sets) {
  Gpus gpus;
  for (const Gpus& mine : request.ranks) {
    gpus.push_back(mine.front());
  }
  auto answer = compat(machine, request.allowed, gpus, request.options.compat, request.options.smt);
  if (auto* refusal = std::get_if<BindRefusal>(&answer)) return *refusal;
  sets = std::move(std::get<0>(answer));
  std::vector<Draft> drafts(sets.size());
  for (Draft& draft : drafts)
    draft.whys.push_back(fmt::format("as gpu_affinity's {}, scope {}", to_string(request.options.compat.affinity),
                                     to_string(request.options.compat.scope)));
  return drafts;
}

void conclude(RankPlan& rank, const Draft& draft, const Cores& cores, const BindOptions& options) {
  std::vector<std::string> lacks = draft.lacks;
  if (options.mode == BindMode::none) rank.why = "not bound: bind mode none";
  else if (rank.gpus.empty()) rank.why = "not bound: no GPU";
  else if (draft.cores.empty() && rank.cpus.empty()) {
    rank.degraded = true;
    rank.why = cores.online().empty() ? "not bound: the machine's CPUs are not known" : "not bound: no allowed CPU is online";
  } else {
    note(lacks, cores.trouble());
    rank.bound = true;
    rank.degraded = !lacks.empty();
    rank.why = join(draft.whys, "; ");
    if (rank.degraded) rank.why += " (" + join(lacks, "; ") + ")";
    if (rank.cpus.empty()) rank.cpus = cores.cpus_of(draft.cores, options.smt);
    rank.cores = draft.cores.empty() ? cores.in(rank.cpus).size() : draft.cores.size();
  }
}

void count_threads(const model::Threads& threads, std::vector<RankPlan>& ranks) {
  for (RankPlan& rank : ranks) {
    if (threads.mode == model::Threads::Mode::fixed) rank.threads = threads.count;
    if (threads.mode != model::Threads::Mode::automatic || !rank.bound) continue;
    const auto sharers = static_cast<std::size_t>(
        std::count_if(ranks.begin(), ranks.end(), [&](const RankPlan& other) { return other.cpus == rank.cpus; }));
    rank.threads = static_cast<unsigned>(std::max<std::size_t>(1, rank.cores / sharers));
  }
}

Gpus seen_by(const Gpus& own, const std::vector<Gpus>& ranks) {
  Gpus others;
  for (const Gpus& rank : ranks)
    for (const std::size_t gpu : rank)
      if (std::find(own.begin(), own.end(), gpu) == own.end()) others.push_back(gpu);
  std::sort(others.begin(), others.end());
  others.erase(std::unique(others.begin(), others.end()), others.end());
  Gpus seen = own;
  seen.insert(seen.end(), others.begin(), others.end());
  return seen;
}

std::optional<BindRefusal> mistake(const Machine& machine, const BindRequest& request) {
  for (std::size_t rank = 0; rank < request.ranks.size(); ++rank)
    for (const std::size_t gpu : request.ranks[rank])
      if (gpu >= machine.gpus.size())
        return BindRefusal{fmt::format("there is no GPU {}: this machine has {}", gpu, machine.gpus.size()), rank};
  for (std::size_t rank = 0; rank < request.ranks.size(); ++rank)
    if (auto refusal = never_bound(machine, request.options, request.ranks[rank].size())) {
      if (refusal->rank) refusal->rank = rank;
      return refusal;
    }
  return std::nullopt;
}

}  // namespace

std::optional<BindRefusal> never_bound(const Machine& machine, const BindOptions& options, std::size_t gpus_per_rank) {
  if (options.memory_nodes && !machine.numa.empty())
    for (const int node : *options.memory_nodes)
      if (std::none_of(machine.numa.begin(), machine.numa.end(), [&](const auto& known) { return known.id == node; }))
        return BindRefusal{fmt::format("there is no memory node {}", node), std::nullopt};
  if (options.mode == BindMode::compat && gpus_per_rank != 1)
    return BindRefusal{"bind mode compat knows only ranks with one GPU each", 0};
  return std::nullopt;
}

std::variant<BindingPlan, BindRefusal> bind(const Machine& machine, const BindRequest& given) {
  BindRequest request = given;
  for (Gpus& gpus : request.ranks) {
    Gpus once;
    for (const std::size_t gpu : gpus)
      if (std::find(once.begin(), once.end(), gpu) == once.end()) once.push_back(gpu);
    gpus = std::move(once);
  }
  const BindOptions& options = request.options;
  if (auto wrong = mistake(machine, request)) return *wrong;
  BindingPlan plan;
  plan.mode = options.mode;
  const bool compat = options.mode == BindMode::compat;  // knows no reserve
  const Cores cores(machine, request.allowed, compat ? model::Reserve() : options.reserve);
  std::vector<Draft> drafts(request.ranks.size());
  std::vector<model::CpuSet> sets(request.ranks.size());
  if (options.mode == BindMode::node || options.mode == BindMode::package) drafts = by_territory(machine, request, cores);
  else if (compat) {
    auto answer = like_gpu_affinity(machine, request, sets);
    if (auto* refusal = std::get_if<BindRefusal>(&answer)) return *refusal;
    drafts = std::move(std::get<0>(answer));
  } else if (options.mode != BindMode::none) drafts = by_share(machine, request, cores);
  for (std::size_t r = 0; r < drafts.size(); ++r) {
    RankPlan& rank = plan.ranks.emplace_back();
    rank.rank = r;
    rank.gpus = request.ranks[r];
    rank.visible = options.peers ? seen_by(rank.gpus, request.ranks) : rank.gpus;
    rank.cpus = std::move(sets[r]);
    conclude(rank, drafts[r], cores, options);
    choose_memory(machine, options, rank);
    if (options.strict && rank.degraded) return BindRefusal{rank.why, r};
  }
  choose_nics(machine, options.nic, plan);
  count_threads(options.threads, plan.ranks);
  return plan;
}

std::vector<Gpus> deal_ranks(const Gpus& gpus, std::size_t ranks) {
  std::vector<Gpus> dealt(ranks);
  const std::size_t n = gpus.size();
  if (n == 0) return dealt;
  if (ranks <= n) {
    std::size_t next = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      for (std::size_t count = n / ranks + (rank < n % ranks ? 1 : 0); count > 0; --count) dealt[rank].push_back(gpus[next++]);
    return dealt;
  }
  std::size_t rank = 0;
  for (std::size_t gpu = 0; gpu < n; ++gpu)
    for (std::size_t count = ranks / n + (gpu < ranks % n ? 1 : 0); count > 0; --count) dealt[rank++].push_back(gpus[gpu]);
  return dealt;
}

}  // namespace thole::plan
