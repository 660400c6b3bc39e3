#include "plan/job/fate.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace thole::plan {
namespace {

using model::Retry;
using model::TaskState;

const WallTime now{Millis{1'000'000}};

TaskEnding exited(int code) {
  TaskEnding ending;
  ending.exit_code = code;
  return ending;
}
TaskEnding killed(int signal) {
  TaskEnding ending;
  ending.signal = signal;
  return ending;
}
TaskEnding with(TaskEnding ending, bool TaskEnding::* mark) {
  ending.*mark = true;
  return ending;
}

struct Case {
  const char* what;
  TaskEnding ending;
  TaskState plain;       // without any retry
  const char* reason;
};

TEST(TaskFate, WithoutRetryAnEndIsAnEnd) {
  const Case cases[] = {
      {"success", exited(0), TaskState::done, ""},
      {"failure", exited(3), TaskState::failed, ""},
      {"signal", killed(9), TaskState::failed, ""},
      {"a limit is a failure, even where the command then says all is well", with(exited(0), &TaskEnding::time_limit),
       TaskState::failed, "time limit"},
      {"cancelled", with(killed(2), &TaskEnding::cancelled), TaskState::cancelled, ""},
      {"lost", with({}, &TaskEnding::lost), TaskState::lost, "no record of its end"},
      {"taken down with its lane", with(killed(15), &TaskEnding::taken_down), TaskState::lost,
       "the machine, or somebody, ended its lane"},
      {"memory", with(exited(1), &TaskEnding::gpu_out_of_memory), TaskState::failed, "out of GPU memory"},
  };
  for (const Case& one : cases) {
    const TaskFate fate = fate_of(one.ending, Retry{}, 1, now);
    EXPECT_EQ(fate.state, one.plain) << one.what;
    EXPECT_EQ(fate.reason, one.reason) << one.what;
  }
}

TEST(TaskFate, ATaskRunsAgainForWhatWasAskedForAndNothingElse) {
  Retry any, codes, signals, memory, lost;
  any.any_failure = true;
  codes.exit_codes = {{70, 75}};
  signals.signals = {9};
  memory.gpu_out_of_memory = true;
  lost.lost = true;
  for (Retry* retry : {&any, &codes, &signals, &memory, &lost}) retry->times = 1;
  const std::pair<TaskEnding, std::vector<const Retry*>> cases[] = {
      {exited(72), {&any, &codes}},
      {exited(3), {&any}},
      {killed(9), {&any, &signals}},
      {with(exited(1), &TaskEnding::gpu_out_of_memory), {&any, &memory}},
      {with({}, &TaskEnding::lost), {&lost}},
      {with(exited(72), &TaskEnding::cancelled), {}},
      {exited(0), {}},
  };
  for (const auto& [ending, again] : cases)
    for (const Retry* retry : {&any, &codes, &signals, &memory, &lost})
      EXPECT_EQ(fate_of(ending, *retry, 1, now).state == TaskState::queued, std::ranges::find(again, retry) != again.end());
}

TEST(TaskFate, ItRunsAgainSoManyTimesAndThePauseDoubles) {
  Retry retry;
  retry.any_failure = true;
  retry.times = 3;
  retry.pause = Seconds{10};
  EXPECT_EQ(fate_of(exited(1), retry, 1, now).ready, now + Seconds{10});
  EXPECT_EQ(fate_of(exited(1), retry, 3, now).ready, now + Seconds{40});
  EXPECT_EQ(fate_of(exited(1), retry, 4, now).state, TaskState::failed);
}

TEST(TaskFate, SignsOfAFullGpuAreThoseOfTheFrameworks) {
  EXPECT_TRUE(says_gpu_out_of_memory("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB"));
  EXPECT_TRUE(says_gpu_out_of_memory("failed to allocate 2.00G: CUDA_ERROR_OUT_OF_MEMORY: out of memory"));
  EXPECT_FALSE(says_gpu_out_of_memory("Killed: out of memory"));
}

}  // namespace
}  // namespace thole::plan
