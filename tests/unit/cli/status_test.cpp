#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

#include "app/show/overview_json.hpp"
#include "base/text.hpp"
#include "cli/show/render.hpp"
#include "unit/cli/status_fixture.hpp"

using namespace thole;
using namespace thole::cli;
using namespace thole::test;
using testing::HasSubstr;
using testing::Not;

namespace {

const Screen narrow{80, 0, false};
const Screen wide{160, 0, false};
const Screen terminal{80, 50, true};

class Status : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

std::size_t widest(const std::string& text) {
  std::size_t most = 0;
  for (std::string_view line : split_lines(text)) most = std::max(most, columns_of(line));
  return most;
}

}  // namespace

TEST_F(Status, ShowsEveryStateInEightyColumns) {
  EXPECT_EQ(render_status(every_state(), narrow), R"(GPU MODEL       MEMORY UTIL TEMP STATE   OWNER       SINCE UNTIL  COMMAND
0   A100-80GB  0.0/80G   0%  30C CLAIMED anna        10:00 13:30  python train.…
1   A100-80GB 11.2/80G  12%  31C CLAIMED me          11:59 -      jupyter-lab
2   A100-80GB 22.4/80G  24%  32C SHARED  bob         Sat   Thu19h [8G] python
                                         me          Sat   Thu19h [16G] python
3   A100-80GB 33.6/80G  36%  33C FOREIGN carl,ann    -     -      python3 -c im…
4   A100-80GB    ?/80G    ?    ? SICK    -           -     -      -
5   A100-80GB    ?/80G    -  35C UNKNOWN -           -     -      -
6   A100-80GB 67.2/80G  72%  36C OVERDUE ?eve_with_… 10-13 11:50  ./a.out
7   A100-80GB 78.4/80G  84%  37C IDLE    -           -     -      -
1 free, 2 claimed, 1 shared, 1 overdue, 1 foreign, 1 sick, 1 unknown; yours: 1,2
GPU 4: fell off the bus (Xid 79)
GPU 5: not readable: permission denied on /dev/nvidia5

WAITING USER SINCE STARTS BY WANTS
      1 dora 11:50 -         4 GPUs
      2 me   11:59 13:30     1 of GPU 0,1, 20.0 GiB, for 2h
)");
}

TEST_F(Status, FitsItsScreenWhateverTheValues) {
  for (const char* model : {"NVIDIA A100-SXM4-80GB", "NVIDIA RTX 6000 Ada Generation", "Intel(R) Data Center GPU Max 1550",
                            "AMD Instinct MI250X / MI250", "\xe5\xbc\xa0\xe4\xb8\x89\xe5\xbc\xa0\xe4\xb8\x89"}) {
    app::Overview overview = every_state();
    for (model::Gpu& gpu : overview.snapshot.machine.gpus) gpu.model = model;
    for (std::size_t columns = 80; columns <= 200; columns += 7)
      EXPECT_LE(widest(render_status(overview, {columns, 0, false}) + render_claims(overview, {columns, 0, false})), columns)
          << model;
  }
}

TEST_F(Status, BeforeTheDriverAnswersClaimsAndTheQueueAreShown) {
  EXPECT_EQ(render_claims(every_state(), narrow), R"(The driver has not answered yet. Claimed are:
GPU OWNER            SINCE UNTIL     COMMAND
0   anna             10:00 13:30     python train.py --config configs/very/deep…
1   me               11:59 -         jupyter-lab
2   bob              Sat   Thu 19:33 [8G] python
2   me               Sat   Thu 19:33 [16G] python
6   ?eve_with_a_rat… 10-13 11:50     ./a.out

WAITING USER SINCE STARTS BY WANTS
      1 dora 11:50 -         4 GPUs
      2 me   11:59 13:30     1 of GPU 0,1, 20.0 GiB, for 2h
)");
  EXPECT_EQ(render_claims(overview_of(2), narrow), "The driver has not answered yet. Nobody has claimed a GPU.\n");
  app::Overview unread = overview_of(2);
  unread.claims_problem = "cannot open: /run/thole";
  EXPECT_THAT(render_claims(unread, narrow), HasSubstr("claims: cannot open: /run/thole"));
}

TEST_F(Status, UsesAWiderScreen) {
  EXPECT_THAT(render_status(every_state(), wide), HasSubstr("python train.py --config configs/very/deeply/nested.yaml"));
  EXPECT_THAT(render_status(every_state(), wide), HasSubstr("A100-SXM4-80GB"));
}

TEST_F(Status, PrintsNoControlBytesOfStrangers) {
  app::Overview overview = overview_of(2);
  claim(overview.units[0], holding("an\x1b]0;na", Seconds{1}, std::nullopt, "evil\x1b[2J\r\nGPU 0 IDLE"));
  overview.units[1].state = app::State::foreign;
  overview.units[1].strangers = {process(1, "x\x07", "\x1b[31mred")};
  overview.snapshot.machine.gpus[1].model = "A\x1b[1m";
  overview.snapshot.observations = {{"file", "", "bad\x1b[0m", true, false, std::nullopt}};
  for (const std::string& text : {render_status(overview, narrow), render_list(overview),
                                  render_gpus(overview, app::gpus_named({"0", "1"}, overview), narrow)}) {
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    EXPECT_EQ(text.find('\r'), std::string::npos) << text;
    EXPECT_EQ(text.find('\x07'), std::string::npos) << text;
  }
}

TEST_F(Status, ColoursOnlyWhereAllowed) {
  EXPECT_EQ(render_status(every_state(), narrow).find('\x1b'), std::string::npos);
  EXPECT_THAT(render_status(every_state(), terminal), HasSubstr("\x1b[1m"));  // mine
  EXPECT_THAT(render_status(every_state(), terminal), HasSubstr("\x1b[31mSICK"));
}

TEST_F(Status, TellsUnsupportedFromUnknown) {
  EXPECT_EQ(figure(model::Metric<double>::unsupported(), "%"), "-");
  EXPECT_EQ(figure(model::Metric<double>::failed("gone"), "%"), "?");
  EXPECT_EQ(figure({}, "%"), "?");
  EXPECT_EQ(memory_use(model::Metric<std::uint64_t>::unsupported(), 81920), "-/80G");
  EXPECT_EQ(memory_use({}, 81920), "?/80G");
  EXPECT_EQ(memory_use(std::uint64_t{11469}, 81920), "11.2/80G");
  EXPECT_EQ(memory_use(std::uint64_t{512}, 4864), "0.5/4.8G");
  EXPECT_EQ(memory_use(std::uint64_t{512}, std::nullopt), "0.5G/?");
}

TEST_F(Status, SumsUpAndNamesMine) {
  EXPECT_THAT(render_status(every_state(), narrow),
              HasSubstr("\n1 free, 2 claimed, 1 shared, 1 overdue, 1 foreign, 1 sick, 1 unknown; yours: 1,2\n"));
}

TEST_F(Status, NamesTheOuterMask) {
  app::Overview overview = overview_of(4);
  overview.outer.named_by = "CUDA_VISIBLE_DEVICES";
  overview.units[0].visible = overview.units[3].visible = false;
  EXPECT_THAT(render_status(overview, narrow), HasSubstr("CUDA_VISIBLE_DEVICES leaves you GPU 1,2 here."));
}

TEST_F(Status, SaysHowOldStaleDataIsAndWhatIsWrong) {
  app::Overview overview = overview_of(1);
  overview.snapshot.observations = {{"nvidia", "procfs", "the driver did not answer within 4 s", false, false, Millis{34'000}}};
  overview.claims_problem = "cannot open: /run/thole/alloc: Permission denied";
  const std::string text = render_status(overview, narrow);
  EXPECT_THAT(text, HasSubstr("nvidia: the driver did not answer within 4 s; memory, load and processes are 34s\n  old\n"));
  EXPECT_THAT(text, HasSubstr("claims: cannot open"));
}

TEST_F(Status, ShowsClaimsOfGpusThatCouldNotBeRead) {
  app::Overview overview = overview_of(0);
  model::Holding held = holding("anna", Seconds{60}, std::nullopt, "python");
  held.key = "GPU-5c2f";
  overview.unseen = {held};
  EXPECT_THAT(render_status(overview, narrow), HasSubstr("GPU-5c2f"));
  EXPECT_THAT(render_status(overview, narrow), HasSubstr("CLAIMED anna"));
}

TEST_F(Status, WithoutAGpuOffersASimulatedMachine) {
  EXPECT_THAT(render_status(overview_of(0), narrow), HasSubstr("thole --machine dgx-a100 status"));
}

TEST_F(Status, ShowsAPartitionedGpuAboveItsInstances) {
  app::Overview overview;
  overview.now = status_noon;
  model::Gpu gpu = overview_of(1).snapshot.machine.gpus[0];
  gpu.mig_mode = true;
  for (int i = 0; i < 2; ++i) {
    model::Instance instance;
    instance.uuid = fmt::format("MIG-{}", i);
    instance.profile = "3g.40gb";
    instance.memory_mib = 40448;
    gpu.mig.push_back(instance);
  }
  overview.snapshot.machine.gpus = {gpu};
  for (model::Unit& unit : model::units(overview.snapshot.machine)) {
    overview.units.emplace_back();
    overview.units.back().unit = unit;
    overview.units.back().state = app::State::idle;
  }
  const std::string text = render_status(overview, narrow);
  std::vector<std::string> starts;
  for (std::string_view line : split_lines(text)) starts.emplace_back(line.substr(0, 3));
  EXPECT_THAT(starts, testing::ElementsAre("GPU", "0  ", "0:0", "0:1", "2 f"));
}

TEST_F(Status, ListsIndexUuidAndName) {
  EXPECT_EQ(render_list(overview_of(2)),
            "0\tGPU-00000000-1111-2222-3333-444444444444\tNVIDIA A100-SXM4-80GB\n"
            "1\tGPU-00000001-1111-2222-3333-444444444444\tNVIDIA A100-SXM4-80GB\n");
}

TEST_F(Status, OneGpuInFullNamesWhatIsNotKnown) {
  const app::Overview overview = every_state();
  const std::string text = render_gpus(overview, app::gpus_named({"5", "2"}, overview), narrow);
  EXPECT_THAT(text, HasSubstr("not known (permission denied)"));
  EXPECT_THAT(text, HasSubstr("not supported"));
  EXPECT_THAT(text, HasSubstr("budget 8.0 GiB"));
  EXPECT_LE(widest(text), 80u);
}

TEST_F(Status, JsonSaysWhatTheTableSays) {
  const model::Json json = status_to_json(every_state());
  ASSERT_EQ(json["units"].size(), 8u);
  EXPECT_EQ(json["units"][0]["state"], "claimed");
  EXPECT_EQ(json["units"][2]["claims"].size(), 2u);
  EXPECT_EQ(json["units"][3]["unclaimed_pids"][0], 99);
  EXPECT_EQ(json["units"][4]["state"], "sick");
  EXPECT_TRUE(json["gpus"][4]["use"].is_null());
  EXPECT_EQ(json["queue"][1]["starts_by"], "2026-11-17T13:30:00Z");
  EXPECT_TRUE(json["queue"][0]["starts_by"].is_null());
}
