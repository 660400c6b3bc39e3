// Placement against brute force on the link graph of every real machine.
#include <gtest/gtest.h>

#include <array>

#include "support/placing.hpp"
#include "support/random_machine.hpp"
#include "support/real_machines.hpp"

namespace thole::test {
namespace {

using model::Shape;
using Merit = std::array<long, 5>;             // smaller is better

// What is promised of a set when these GPUs are free; ties after that are not looked at here.
Merit merit(const LinkGraph& graph, Mask free, Mask set, Shape shape) {
  const long left = -graph.sum(free & ~set), nodes = graph.nodes(set), packages = graph.packages(set);
  if (shape == Shape::independent) return {nodes, packages, left};
  const long weakest = shape == Shape::collective && std::popcount(set) > 1 ? -graph.weakest(set) : 0, sum = -graph.sum(set);
  if (graph.any_fast(free)) return {weakest, sum, left};
  return {nodes, packages, weakest, sum, left};
}

void compare(const std::string& name, const LinkGraph& graph, Mask free, unsigned count) {
  for (const Shape shape : {Shape::collective, Shape::pairwise, Shape::independent}) {
    const Mask chosen = graph.placed(free, count, shape);
    ASSERT_EQ(std::popcount(chosen), static_cast<int>(count));
    ASSERT_EQ(chosen & ~free, 0u);
    Merit best = merit(graph, free, chosen, shape);
    const Merit ours = best;
    EXPECT_EQ(graph.place(free, count, shape).score, graph.sum(chosen));
    each_subset(free, count, [&](Mask set) { best = std::min(best, merit(graph, free, set, shape)); });
    EXPECT_EQ(ours, best) << name << ": " << count << " of " << std::hex << free << " as " << to_string(shape) << ": " << chosen;
  }
}

TEST(PlaceBruteForce, FindsTheBestSetOnEveryLinkGraph) {
  std::size_t graphs = 0;
  for (const auto& [name, machine] : real_machines()) {
    const LinkGraph graph(machine);
    if (graph.size() < 2 || graph.size() > 16) continue;
    ++graphs;
    Dice dice(graph.size());
    const Mask all = (Mask{1} << graph.size()) - 1;
    const bool small = graph.size() <= 8;
    for (Mask i = 0; i < (small ? all : 40); ++i) {
      const Mask free = small ? i + 1 : i == 0 ? all : static_cast<Mask>(dice.roll(all)) + 1;
      for (unsigned count = 1; count <= static_cast<unsigned>(std::popcount(free)); ++count) compare(name, graph, free, count);
    }
  }
  EXPECT_GE(graphs, 60u) << "the link graphs of tests/topologies are not all there";
}

}  // namespace
}  // namespace thole::test
