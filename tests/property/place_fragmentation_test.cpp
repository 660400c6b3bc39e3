// Whether placement keeps good sets for those who come later: jobs arrive and leave at random on four machines, and the links
// that each job got are compared with the best there could be on the empty machine.
//
// Load: every arrival wants 1 to 4 GPUs; before it, each running job has left with a chance of 1 in `leaving`; where there
// still are too few free, the oldest leave. 60 arrivals make a trace. Measured is the mean, over all jobs of two GPUs or more,
// of the sum of links over the ideal sum. The rules that are compared see the same arrivals and departures.
#include <gtest/gtest.h>

#include <functional>
#include <iostream>

#include "support/placing.hpp"
#include "support/random_machine.hpp"
#include "support/real_machines.hpp"

namespace thole::test {
namespace {

struct Job { Mask set = 0; };
using Rule = std::function<Mask(Mask free, unsigned count)>;

// A rule that takes the first set, in PCI order, with the largest worth.
template <class Worth>
Rule largest(Worth worth) {
  return [=](Mask free, unsigned count) {
    Mask best = 0;
    decltype(worth(free, free)) most{};
    each_subset(free, count, [&](Mask set) {
      const auto now = worth(free, set);
      if (best == 0 || now > most) best = set, most = now;
    });
    return best;
  };
}

class Study {
 public:
  explicit Study(const model::Machine& machine) : graph_(machine), sums_(std::size_t{1} << graph_.size()), ideal_(5) {
    for (Mask set = 0; set < sums_.size(); ++set) sums_[set] = graph_.sum(set);
    for (unsigned count = 2; count <= 4; ++count)
      each_subset(all(), count, [&](Mask set) { ideal_[count] = std::max(ideal_[count], sums_[set]); });
  }

  Rule first() const { return largest([](Mask, Mask) { return 0; }); }
  Rule largest_sum() const { return largest([this](Mask, Mask set) { return sums_[set]; }); }
  Rule sum_then_left() const {
    return largest([this](Mask free, Mask set) { return std::pair(sums_[set], sums_[free & ~set]); });
  }
  Rule ours(model::Shape shape) const {
    return [this, shape](Mask free, unsigned count) { return graph_.placed(free, count, shape); };
  }

  double mean(const Rule& rule, std::uint64_t seed, unsigned leaving) const {
    constexpr int traces = 100, arrivals = 60;
    double total = 0;
    std::size_t jobs = 0;
    for (int trace = 0; trace < traces; ++trace) {
      Dice dice(seed * 1000 + static_cast<std::uint64_t>(trace));
      Mask free = all();
      std::vector<Job> running;
      for (int arrival = 0; arrival < arrivals; ++arrival) {
        const unsigned count = 1 + dice.roll(4);
        leave(running, free, dice, leaving, count);
        const Mask set = rule(free, count);
        free &= ~set;
        running.push_back({set});
        if (count < 2) continue;
        total += static_cast<double>(sums_[set]) / static_cast<double>(ideal_[count]);
        ++jobs;
      }
    }
    return total / static_cast<double>(jobs);
  }

 private:
  Mask all() const { return static_cast<Mask>(sums_.size() - 1); }

  // Rolls eight times whatever runs, so that all rules see the same departures by age.
  static void leave(std::vector<Job>& running, Mask& free, Dice& dice, unsigned leaving, unsigned count) {
    std::vector<Job> stay;
    for (std::size_t i = 0; i < 8; ++i) {
      const bool leaves = dice.one_in(leaving);
      if (i >= running.size()) continue;
      if (leaves) free |= running[i].set;
      else stay.push_back(running[i]);
    }
    running = std::move(stay);
    while (std::popcount(free) < static_cast<int>(count)) {
      free |= running.front().set;
      running.erase(running.begin());
    }
  }

  LinkGraph graph_;
  std::vector<long> sums_, ideal_;
};

TEST(PlaceFragmentation, IsNotBelowTheBestSimpleRuleAndFarAboveTheFirstIndex) {
  constexpr std::uint64_t seed = 20260822;
  constexpr double rounding = 1e-9;
  std::cout << "mean sum of links over ideal, seed " << seed
            << "\nmachine                      leaving  first   largest sum  sum, then left  pairwise  collective\n";
  for (const char* name :
       {"nvsmi/dgx1-volta", "nvsmi/8xa100-pcie-nvbridge", "nvsmi/8gpu-nvbridge-crosspairs", "nvsmi/8gpu-6plus2"}) {
    const Study study(real_machines().at(name));
    for (const unsigned leaving : {3u, 5u, 10u}) {
      const double first = study.mean(study.first(), seed, leaving), sum = study.mean(study.largest_sum(), seed, leaving);
      const double left = study.mean(study.sum_then_left(), seed, leaving);
      const double pairwise = study.mean(study.ours(model::Shape::pairwise), seed, leaving);
      const double collective = study.mean(study.ours(model::Shape::collective), seed, leaving);
      std::cout << fmt::format("{:<30} 1 in {:<3} {:.4f}  {:.4f}       {:.4f}          {:.4f}    {:.4f}\n", name, leaving,
                               first, sum, left, pairwise, collective);
      EXPECT_GE(pairwise, std::max(sum, left) - rounding) << name;
      EXPECT_GE(collective, std::max(sum, left) - rounding) << name;
      EXPECT_GE(collective, first + 0.08) << name;
    }
  }
}

}  // namespace
}  // namespace thole::test
