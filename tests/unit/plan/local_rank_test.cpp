// Which rank a launcher's variables say, and the GPUs of each rank.
#include "plan/bind/rank.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "support/machines.hpp"

namespace thole::test {
namespace {

using plan::Environment;
using plan::local_rank;

struct Said { Environment environment; const char* means; };

std::string written(const std::optional<plan::LocalRank>& rank) {
  if (!rank) return "none";
  return fmt::format("{} of {} by {}", rank->rank, rank->ranks ? std::to_string(*rank->ranks) : "?", rank->named_by);
}

TEST(LocalRank, IsWhatTheLauncherSays) {
  const Said table[] = {
      {{}, "none"},
      {{{"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "8"}}, "3 of 8 by LOCAL_RANK"},
      {{{"LOCAL_RANK", "3"}}, "3 of ? by LOCAL_RANK"},
      {{{"OMPI_COMM_WORLD_LOCAL_RANK", "1"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}, "1 of 4 by OMPI_COMM_WORLD_LOCAL_RANK"},
      {{{"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}}, "0 of 2 by MPI_LOCALRANKID"},
      {{{"SLURM_LOCALID", "2"}, {"SLURM_NTASKS_PER_NODE", "4"}}, "2 of 4 by SLURM_LOCALID"},
      {{{"SLURM_LOCALID", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}, {"SLURM_NTASKS_PER_NODE", "9"}},
       "2 of 4 by SLURM_LOCALID"},
      {{{"SLURM_LOCALID", "2"}, {"SLURM_NODEID", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2),3"}}, "2 of 3 by SLURM_LOCALID"},
      {{{"SLURM_LOCALID", "0"}, {"SLURM_TASKS_PER_NODE", "2"}}, "0 of 2 by SLURM_LOCALID"},
      {{{"SLURM_LOCALID", ""}}, "none"},
      // torchrun below srun: the inner launcher made this process
      {{{"SLURM_LOCALID", "0"}, {"SLURM_NTASKS_PER_NODE", "1"}, {"LOCAL_RANK", "5"}, {"LOCAL_WORLD_SIZE", "8"}},
       "5 of 8 by LOCAL_RANK"},
  };
  for (const Said& row : table) EXPECT_EQ(written(local_rank(row.environment)), row.means);
}

TEST(LocalRank, RefusesWhatIsNoNumber) {
  EXPECT_THROW(local_rank({{"LOCAL_RANK", "first"}}), Error);
  EXPECT_THROW(local_rank({{"LOCAL_RANK", "-1"}}), Error);
  EXPECT_THROW(local_rank({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2 "  "x"}}), Error);
}

TEST(TasksOfNode, ReadsSlurmsShortForm) {
  const auto tasks = [](const char* list) {
    std::string all;
    for (std::size_t node = 0; const auto count = plan::tasks_of_node(list, node); ++node) all += std::to_string(*count) + " ";
    return all;
  };
  EXPECT_EQ(tasks("4"), "4 ");
  EXPECT_EQ(tasks("4(x2),3"), "4 4 3 ");
  EXPECT_EQ(tasks("1,2(x3),7"), "1 2 2 2 7 ");
  for (const char* bad : {"", "x", "4(x", "4(x2", "4(xy)", "(x2)"}) EXPECT_EQ(tasks(bad), "") << bad;
}

TEST(Spread, RankTakesTheGpuOfItsNumberRoundAndRound) {
  using Spread = std::vector<std::vector<std::size_t>>;
  EXPECT_EQ(plan::spread({4, 5, 6}, 3, 1), (Spread{{4}, {5}, {6}}));
  EXPECT_EQ(plan::spread({4, 5}, 4, 1), (Spread{{4}, {5}, {4}, {5}})) << "several ranks a GPU";
  EXPECT_EQ(plan::spread({4, 5, 6, 7}, 2, 2), (Spread{{4, 5}, {6, 7}})) << "several GPUs a rank";
  EXPECT_EQ(plan::spread({4, 5, 6, 7}, 2, 1), (Spread{{4}, {5}}));
  EXPECT_EQ(plan::spread({4}, 2, 3), (Spread{{4}, {4}})) << "each at most once";
  EXPECT_EQ(plan::spread({}, 2, 1), (Spread{{}, {}}));
}

// The order in which a program counts the devices it sees.
std::string order(const model::Snapshot& snapshot, const Environment& environment) {
  const auto units = units_of(snapshot);
  std::string text;
  for (std::size_t unit : plan::outer_allotment(snapshot, units, environment).order) text += units[unit].label + " ";
  return text;
}

TEST(OuterOrder, IsThatOfTheVariable) {
  const model::Snapshot snapshot = machine({"ab", "cd"});
  EXPECT_EQ(order(snapshot, {}), "0 1 2 3 ");
  EXPECT_EQ(order(snapshot, {{"CUDA_VISIBLE_DEVICES", "3,1"}}), "3 1 ");
  EXPECT_EQ(order(snapshot, {{"CUDA_VISIBLE_DEVICES", "GPU-cccccccc,GPU-aaaaaaaa"}}), "2 0 ");
  EXPECT_EQ(order(snapshot, {{"CUDA_VISIBLE_DEVICES", ""}}), "");
  EXPECT_EQ(order(snapshot, {{"CUDA_VISIBLE_DEVICES", "3,1"}, {"SLURM_JOB_GPUS", "1,2"}}), "1 ")
      << "an engine's list narrows too";
}

}  // namespace
}  // namespace thole::test
