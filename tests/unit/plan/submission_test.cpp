#include "plan/job/submission.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "plan/job/directives.hpp"
#include "support/machines.hpp"

namespace thole::test {
namespace {

plan::Luggage packed(const plan::Environment& environment, std::vector<std::string> on = {}) {
  const model::Snapshot snapshot = machine({"ab", "cd"});
  model::Request request;
  request.on = std::move(on);
  return plan::luggage(environment, request, snapshot, units_of(snapshot));
}

TEST(Luggage, TheEnvironmentGoesAlong) {
  const auto taken = packed({{"PATH", "/bin"}, {"HOME", "/h"}, {"THOLE_PICK", "last"}});
  EXPECT_EQ(taken.environment, (std::vector<std::string>{"HOME=/h", "PATH=/bin", "THOLE_PICK=last"}));
  EXPECT_TRUE(taken.on.empty());
  EXPECT_FALSE(taken.inside_claim);
}

TEST(Luggage, FromInsideATaskItsMarkStaysBehind) {
  EXPECT_EQ(packed({{"THOLE_TASK", "q:12.3:1"}, {"THOLE_JOB", "12"}, {"THOLE_PICK", "last"}}).environment,
            std::vector<std::string>{"THOLE_PICK=last"});
}

TEST(Luggage, AMaskOfTheUsersOwnBecomesOn) {
  const auto taken = packed({{"PATH", "/bin"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}, {"CUDA_VISIBLE_DEVICES", "1,3"}});
  EXPECT_EQ(taken.on, (std::vector<std::string>{"GPU-bbbbbbbb-0", "GPU-dddddddd-0"}));
  EXPECT_EQ(taken.masked_by, "CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(taken.environment, (std::vector<std::string>{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "PATH=/bin"}));
}

TEST(Luggage, AMaskNarrowsWhatOnNames) {
  const plan::Environment masked{{"CUDA_VISIBLE_DEVICES", "GPU-bbbbbbbb-0,GPU-dddddddd-0"}};
  EXPECT_EQ(packed(masked, {"0", "1"}).on, std::vector<std::string>{"GPU-bbbbbbbb-0"});
  EXPECT_THROW(packed(masked, {"0"}), Error);
  EXPECT_THROW(packed({{"CUDA_VISIBLE_DEVICES", ""}}), Error);
}

TEST(Luggage, AMaskThatHidesNothingIsNoWish) {
  EXPECT_TRUE(packed({{"CUDA_VISIBLE_DEVICES", "0,1,2,3"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}).on.empty());
}

TEST(Luggage, FromInsideAClaimWhatDescribesItIsLeftBehind) {
  const auto taken = packed({{"PATH", "/bin"},
                             {"THOLE_CLAIM", "5f2c19d0a4e8b731"},
                             {"THOLE_GPUS", R"([{"key": "GPU-bbbbbbbb-0", "vendor": "nvidia", "listed_as": "1"}])"},
                             {"THOLE_MACHINE", "dgx"},
                             {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                             {"CUDA_VISIBLE_DEVICES", "1"},
                             {"NCCL_IB_HCA", "mlx5_0"}});
  EXPECT_EQ(taken.environment, std::vector<std::string>{"PATH=/bin"});
  EXPECT_TRUE(taken.on.empty());
  EXPECT_TRUE(taken.inside_claim);
}

// Whether the user or `--threads` has set them cannot be told, and a user's wish must not get lost.
TEST(Luggage, FromInsideAClaimNumbersOfThreadsGoAlong) {
  const auto taken = packed({{"THOLE_CLAIM", "5f2c19d0a4e8b731"}, {"OMP_NUM_THREADS", "4"}});
  EXPECT_EQ(taken.environment, std::vector<std::string>{"OMP_NUM_THREADS=4"});
}

TEST(Luggage, InsideAClaimANarrowerMaskIsTheUsersOwn) {
  const auto taken =
      packed({{"THOLE_CLAIM", "5f2c19d0a4e8b731"},
              {"THOLE_GPUS", R"([{"key": "GPU-bbbbbbbb-0", "vendor": "nvidia", "listed_as": "1"},
                                 {"key": "GPU-cccccccc-0", "vendor": "nvidia", "listed_as": "2"}])"},
              {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
              {"CUDA_VISIBLE_DEVICES", "2"}});
  EXPECT_EQ(taken.on, std::vector<std::string>{"GPU-cccccccc-0"});
}

// A GPU has left the driver's list since, and gives its number to another; of the claim one may have left itself.
TEST(Luggage, InsideAClaimItsOwnMaskIsNobodysWishWhateverItsNumbersMeanNow) {
  for (const char* key : {"GPU-cccccccc-0", "GPU-99999999-0"})
    EXPECT_TRUE(packed({{"THOLE_CLAIM", "5f2c19d0a4e8b731"},
                        {"THOLE_GPUS", fmt::format(R"([{{"key": "{}", "vendor": "nvidia", "listed_as": "1"}}])", key)},
                        {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
                        {"CUDA_VISIBLE_DEVICES", "1"}}).on.empty());
}

TEST(Luggage, AnUnreadableListOfTheClaimMakesItsMaskTholes) {
  EXPECT_TRUE(packed({{"THOLE_CLAIM", "x"}, {"THOLE_GPUS", "{"}, {"CUDA_VISIBLE_DEVICES", "2"}}).on.empty());
}

TEST(Directives, AreOptionsBeforeTheFirstCommand) {
  const auto all = plan::read_directives(
      "#!/bin/sh\n# a comment\n\n#THOLE -g 2 --time 4h\n#THOLE --name 'a b'\n#THOLEX -g 9\necho\n", "x.sh");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].line, 4u);
  EXPECT_EQ(all[0].words, (std::vector<std::string>{"-g", "2", "--time", "4h"}));
  EXPECT_EQ(all[1].words, (std::vector<std::string>{"--name", "a b"}));
  EXPECT_TRUE(plan::read_directives(std::string("\x7f" "ELF\0\0\n#THOLE -g 2\n", 19), "x").empty());
}

TEST(Directives, OneAfterACommandIsAMistakeAndNotSilence) {
  try {
    plan::read_directives("#!/bin/sh\ncd /tmp\n#THOLE -g 2\n", "x.sh");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.full(), "x.sh:3: a #THOLE line after the first command has no effect\n  move it to the top of the script");
  }
  EXPECT_THROW(plan::read_directives("#THOLE --name 'a\n", "x.sh"), Error);
}

TEST(Directives, WordsAreSplitAsShWould) {
  EXPECT_EQ(plan::split_words(R"( a 'b c' "d \"e\" f" g\ h 'i'"j" '' )"),
            (std::vector<std::string>{"a", "b c", "d \"e\" f", "g h", "ij", ""}));
}

}  // namespace
}  // namespace thole::test
