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
    EXPECT_EQ(ours, best) << name << ": " << count << " of " << std::hex << free << " as " << to_string(shape) << ": "
                          << chosen;
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

// More GPUs than any real box has: boards of four, random links between them, half of them on a second node.
TEST(PlaceBruteForce, FindsTheBestSetAmongMoreThanSixteen) {
  for (unsigned round = 0; round < 12; ++round) {
    Dice dice(round);
    const std::size_t n = 17 + dice.roll(8);
    model::Snapshot snapshot = machine({std::string("abcdefghijklmnopqrstuvwxyz").substr(0, n / 2),
                                        std::string("abcdefghijklmnopqrstuvwxyz").substr(n / 2, n - n / 2)});
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = a + 1; b < n; ++b)
        if (a / 4 == b / 4 || dice.one_in(8))
          link(snapshot, a, b, model::LinkKind::nvlink, 1 + static_cast<int>(dice.roll(4)));
    const LinkGraph graph(snapshot.machine);
    const Mask all = (Mask{1} << n) - 1;
    for (const unsigned count : {1u, 2u, 3u, static_cast<unsigned>(n) - 2}) {
      ASSERT_TRUE(graph.place(all, count).exact);
      compare("round " + std::to_string(round), graph, all, count);
    }
  }
}

TEST(PlaceBruteForce, WhatMustBeInTheSetNarrowsTheSetsAndNothingElse) {
  for (const auto& [name, real] : real_machines()) {
    const LinkGraph graph(real);
    if (graph.size() < 3 || graph.size() > 8) continue;
    const Mask all = (Mask{1} << graph.size()) - 1;
    for (std::size_t must = 0; must < graph.size(); ++must)
      for (unsigned count = 1; count < graph.size(); ++count) {
        const Mask chosen = graph.placed(all, count, Shape::collective, Mask{1} << must);
        EXPECT_TRUE(chosen >> must & 1);
        Merit best = merit(graph, all, chosen, Shape::collective);
        const Merit ours = best;
        each_subset(all, count, [&](Mask set) {
          if (set >> must & 1) best = std::min(best, merit(graph, all, set, Shape::collective));
        });
        EXPECT_EQ(ours, best) << name << ": " << count << " with " << must;
      }
  }
}

}  // namespace
}  // namespace thole::test
