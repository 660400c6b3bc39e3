#include "plan/place/why.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "support/machines.hpp"
#include "support/queues.hpp"

namespace thole::test {
namespace {

class Why : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
  void hold(std::size_t unit, const char* user, std::optional<long> until_minutes = {}) {
    model::Holding holding;
    holding.key = units_[unit].key;
    holding.held = holding.verified = true;
    holding.user = user;
    holding.since = noon - minutes(58);
    if (until_minutes) holding.until = noon + minutes(*until_minutes);
    holding.command = "python train.py";
    holdings_.push_back(holding);
  }
  std::string explained(const model::Wait& wait, const model::Request& request = {}) const {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < units_.size(); ++i) all.push_back(i);
    return join(plan::explain_wait(wait, request, all, {units_, verdicts_, holdings_, queue_, noon}), "; ");
  }

  model::Snapshot snapshot_ = machine({"abc"});
  std::vector<model::Unit> units_ = units_of(snapshot_);
  std::vector<plan::Verdict> verdicts_ = std::vector<plan::Verdict>(3);
  std::vector<model::Holding> holdings_;
  std::vector<model::Waiting> queue_;
};

TEST_F(Why, TheHeadHearsWhoHoldsWhatAndWhenItStarts) {
  hold(0, "anna", 80);
  hold(1, "anna", 80);
  verdicts_[2].why = "used without a claim by bert (x, pid 9, 1 MiB)";
  model::Wait wait;
  wait.promise = noon + minutes(80);
  EXPECT_EQ(explained(wait),
            "next in line; GPUs 0,1: anna since 11:02, until 13:20 (python train.py); "
            "GPU 2: used without a claim by bert (x, pid 9, 1 MiB); starts by 13:20 at the latest");
}

TEST_F(Why, OneBehindHearsBehindWhomAndWhatTimeWouldDo) {
  hold(0, "anna", 40);
  model::Waiting before;
  before.ticket = 7;
  before.user = "bert";
  before.count = 2;
  before.since = noon - minutes(5);
  queue_.push_back(before);
  model::Wait wait;
  wait.behind = 7;
  wait.position = 2;
  wait.would_fit = minutes(40);
  EXPECT_EQ(explained(wait),
            "2nd in line, behind bert (2 GPUs, since 11:55); GPU 0: anna since 11:02, until 12:40 (python train.py); "
            "GPUs 1,2: free, but not your turn; no start can be promised; with --time 39m45s or less it would start now");
  wait.would_fit = Seconds{366LL * 86400};
  EXPECT_NE(explained(wait).find("with any --time it would start now"), std::string::npos);
  wait.would_fit.reset();
  wait.yields_to = {{7, 1001}};
  const std::string says = "2nd in line, behind bert (2 GPUs, since 11:55), who may start now as you may, and declared less;";
  EXPECT_EQ(explained(wait).substr(0, says.size()), says);
}

TEST_F(Why, SharersAndDoubtsAreNamed) {
  hold(0, "anna");
  holdings_[0].shared = true;
  holdings_[0].memory_mib = 8192;
  hold(0, "be\033rt");
  holdings_[1].verified = false;
  holdings_[1].overdue = true;
  holdings_[1].command.clear();
  const plan::Scene scene{units_, verdicts_, holdings_, queue_, noon};
  EXPECT_EQ(plan::explain_unit(0, scene),
            "anna with 8.0 GiB since 11:02 (python train.py) and be\\x1brt (unverified) since 11:02, overdue");
  EXPECT_EQ(plan::explain_unit(1, scene), "");
}

TEST_F(Why, Ordinals) {
  for (const auto& [number, text] : std::vector<std::pair<unsigned, const char*>>{{1, "1st"},
                                                                                  {2, "2nd"},
                                                                                  {3, "3rd"},
                                                                                  {4, "4th"},
                                                                                  {11, "11th"},
                                                                                  {12, "12th"},
                                                                                  {13, "13th"},
                                                                                  {21, "21st"},
                                                                                  {111, "111th"},
                                                                                  {122, "122nd"}})
    EXPECT_EQ(plan::ordinal(number), text);
}

}  // namespace
}  // namespace thole::test
