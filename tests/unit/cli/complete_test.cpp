#include "cli/line/complete.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.hpp"

using namespace thole;
using namespace thole::cli;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

namespace {

// A line as typed after "thole "; what follows the last blank is unfinished.
Unfinished look(std::string_view line) {
  const auto words = split(line, ' ');
  return look_at(words);
}

std::vector<std::string> offered(std::string_view line) {
  std::vector<std::string> texts;
  for (const Candidate& candidate : candidates(look(line))) texts.push_back(candidate.text);
  return texts;
}

}  // namespace

TEST(Complete, OffersTheVisibleVerbsFirst) {
  EXPECT_THAT(offered(""), AllOf(Contains("status"), Contains("run"), Not(Contains("__probe")), Not(Contains("--json"))));
  EXPECT_THAT(offered("rel"), ElementsAre("release"));
  EXPECT_THAT(offered("--json "), Contains("run"));
  EXPECT_THAT(offered("--machine dgx-a100 st"), ElementsAre("status"));
}

TEST(Complete, OffersTheOptionsThatTheVerbHas) {
  EXPECT_THAT(offered("run --gp"), ElementsAre("--gpus"));
  EXPECT_THAT(offered("status --"), AllOf(Contains("--watch"), Contains("--json"), Not(Contains("--gpus"))));
  EXPECT_THAT(offered("--"), AllOf(Contains("--machine"), Not(Contains("--gpus"))));
}

TEST(Complete, OffersTheChoicesOfAValue) {
  EXPECT_THAT(offered("run --beside "), ElementsAre("none", "mine", "any"));
  EXPECT_THAT(offered("run --pick=ra"), ElementsAre("--pick=random"));
  EXPECT_THAT(offered("completion z"), ElementsAre("zsh"));
  EXPECT_THAT(offered("completion zsh "), IsEmpty());
}

TEST(Complete, OffersKernelsAfterWhatIsDoneToThem) {
  EXPECT_THAT(offered("jupyter "), ElementsAre("install", "list", "remove"));
  EXPECT_THAT(offered("jupyter --json r"), ElementsAre("remove"));
  EXPECT_EQ(look("jupyter remove ").offer, Offer::kernels);
  EXPECT_EQ(look("jupyter --json remove one ").first, "remove");
}

TEST(Complete, KnowsWhatAValueIs) {
  EXPECT_EQ(look("run --on ").offer, Offer::gpus);
  EXPECT_EQ(look("run --model ").offer, Offer::models);
  EXPECT_EQ(look("--machine ").offer, Offer::machines);
  EXPECT_EQ(look("status ").offer, Offer::gpus);
  EXPECT_EQ(look("release ").offer, Offer::claims);
  EXPECT_EQ(look("capture -o ").offer, Offer::files);
  EXPECT_EQ(look("--state-dir ").offer, Offer::directories);
  EXPECT_EQ(look("run --gpus ").offer, Offer::nothing);
}

TEST(Complete, CompletesTheLastGpuOfAList) {
  EXPECT_EQ(look("run --on 0,3,GP").typed, "GP");
  EXPECT_EQ(look("run --on 0,3,GP").before, "0,3,");
  EXPECT_EQ(look("run --on=0,").before, "--on=0,");
}

TEST(Complete, HandsOverAtTheCommand) {
  struct Case {
    std::string_view line;
    std::size_t command;
  };
  for (const Case& c :
       {Case{"run ", 1}, Case{"run pyth", 1}, Case{"run python ", 1}, Case{"run -g 2 python tr", 3}, Case{"run -g2 -- ", 3},
        Case{"run -- ls -", 2}, Case{"--json run --wait 1h make ", 4}, Case{"run --no-wait --json ls ", 3}}) {
    EXPECT_EQ(look(c.line).offer, Offer::command) << c.line;
    EXPECT_EQ(look(c.line).command, c.command) << c.line;
    EXPECT_THAT(offered(c.line), IsEmpty()) << c.line;
  }
}

TEST(Complete, ForgivesMistakesBefore) {
  EXPECT_THAT(offered("nonsense "), IsEmpty());
  EXPECT_THAT(offered("run --nonsense --gp"), ElementsAre("--gpus"));
}

TEST(Complete, HasAScriptForEachShell) {
  for (const char* shell : {"bash", "zsh", "fish"})
    EXPECT_THAT(std::string(completion_script(shell)), testing::HasSubstr("__complete"));
  EXPECT_EQ(completion_script("csh"), "");
}
