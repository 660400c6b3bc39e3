#include "plan/bind/counted.hpp"

#include <algorithm>
#include <tuple>

#include "base/text.hpp"

namespace thole::plan {

namespace {

class Counting {
 public:
  Counting(const model::Machine& machine, const std::vector<Share>& own, const Cores& cores)
      : machine_(machine), own_(own), cores_(cores), uses_(cores.all().size()), taken_(own.size()) {}

  // A core may be several GPUs' own: whoever comes first has it.
  void take_own(std::size_t gpu, std::size_t count, Share& share) {
    const CoreList& own = own_[gpu].cores;
    for (std::size_t& next = taken_[gpu]; next < own.size() && share.cores.size() < count; ++next)
      if (uses_[own[next]] == 0) add(own[next], share);
  }

  // `rank`: all parts of the rank that `share` belongs to; it gets no core twice.
  void lend(std::size_t gpu, std::size_t count, const std::vector<Share>& rank, Share& share) {
    const std::size_t had = share.cores.size();
    const auto has = [](const Share& part, std::size_t core) {
      return std::ranges::find(part.cores, core) != part.cores.end();
    };
    std::size_t shared = 0;
    for (const std::size_t core : by_nearness(gpu)) {
      if (share.cores.size() == count) break;
      if (std::ranges::any_of(rank, [&](const Share& part) { return has(part, core); })) continue;
      shared += uses_[core] > 0;
      add(core, share);
    }
    if (share.cores.size() < count) {
      share.lack = fmt::format("{} cores asked for, and only {} can be used", count, share.cores.size());
    } else if (const std::size_t lent = count - had; lent > 0) {
      share.lack = fmt::format("{} of the {} cores {} lent: GPU {}'s own {} are used up", lent, count, lent == 1 ? "is" : "are",
                               gpu, own_[gpu].cores.size());
      if (shared > 0) share.lack += fmt::format("; {} shared with other ranks", shared);
    } else {
      share.lack = own_[gpu].lack;
    }
    std::sort(share.cores.begin(), share.cores.end());
    if (!share.cores.empty())
      share.why = fmt::format("{} core{} of {}", share.cores.size(), share.cores.size() == 1 ? "" : "s",
                              cores_.place_of(share.cores));
  }

 private:
  void add(std::size_t core, Share& share) {
    share.cores.push_back(core);
    ++uses_[core];
  }

  // All cores: those that fewest ranks have first, of these the nearest, of these the ones after the GPU's own.
  CoreList by_nearness(std::size_t gpu) const {
    std::vector<int> reach(cores_.all().size(), 3);
    int ring = 0;
    for (const Reach asked : {Reach::node, Reach::package, Reach::machine}) {
      for (const std::size_t core : territory(machine_, gpu, asked, cores_).cores) reach[core] = std::min(reach[core], ring);
      ++ring;
    }
    const std::size_t end = own_[gpu].cores.empty() ? 0 : own_[gpu].cores.back();
    CoreList list = cores_.every();
    std::erase_if(list, [&](std::size_t core) { return reach[core] == 3; });
    std::sort(list.begin(), list.end(), [&](std::size_t a, std::size_t b) {
      const auto key = [&](std::size_t core) { return std::tuple(uses_[core], reach[core], core <= end, core); };
      return key(a) < key(b);
    });
    return list;
  }

  const model::Machine& machine_;
  const std::vector<Share>& own_;
  const Cores& cores_;
  std::vector<std::size_t> uses_;              // by core: how many ranks have it
  std::vector<std::size_t> taken_;             // by GPU: how many of its own are given out
};

}  // namespace

std::vector<std::vector<Share>> counted(const model::Machine& machine, const std::vector<std::vector<std::size_t>>& ranks,
                                        const std::vector<Share>& own, std::size_t count, const Cores& cores) {
  Counting counting(machine, own, cores);
  const auto part = [&](const std::vector<std::size_t>& gpus, std::size_t i) {
    return count / gpus.size() + (i < count % gpus.size() ? 1 : 0);
  };
  std::vector<std::vector<Share>> shares(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)   // all take their own before anybody lends
    for (std::size_t i = 0; i < ranks[rank].size(); ++i)
      counting.take_own(ranks[rank][i], part(ranks[rank], i), shares[rank].emplace_back());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (std::size_t i = 0; i < ranks[rank].size(); ++i)
      counting.lend(ranks[rank][i], part(ranks[rank], i), shares[rank], shares[rank][i]);
    std::erase_if(shares[rank], [](const Share& share) { return share.cores.empty() && share.lack.empty(); });
  }
  return shares;
}

}  // namespace thole::plan
