#include "app/show/capture.hpp"

#include <gtest/gtest.h>

#include "model/json.hpp"
#include "unit/cli/status_fixture.hpp"

using namespace thole;
using namespace thole::app;
using namespace thole::test;

namespace {

model::Machine busy_machine() {
  model::Machine machine = overview_of(2).snapshot.machine;
  machine.name = "secret-host";
  machine.gpus[1].use.processes =
      std::vector{process(1, "anna", "python thesis.py"), process(2, "bob", "x"), process(3, "anna", "y")};
  machine.gpus[1].health = model::Health::lost;
  machine.gpus[1].health_reason = "secret reason";
  return machine;
}

}  // namespace

TEST(Capture, LeavesEveryGpuIdleAndHealthyUnlessTheUseIsWanted) {
  const model::Machine machine = captured(busy_machine(), {});
  for (const model::Gpu& gpu : machine.gpus) {
    EXPECT_EQ(gpu.health, model::Health::ok);
    EXPECT_EQ(*gpu.use.memory_used_mib, 0u);
    EXPECT_TRUE((*gpu.use.processes).empty());
  }
  EXPECT_EQ(machine.gpus[0].uuid, busy_machine().gpus[0].uuid);
}

TEST(Capture, KeepsTheUseOnRequest) { EXPECT_EQ(captured(busy_machine(), {.use = true}), busy_machine()); }

TEST(Capture, AnonymousSaysNothingOfPeople) {
  const std::string text = model::dump(model::to_json(captured(busy_machine(), {.use = true, .anonymous = true})));
  for (const char* secret : {"anna", "bob", "thesis", "secret", "1111-2222"})
    EXPECT_EQ(text.find(secret), std::string::npos) << secret;
  // … but the same person is still the same.
  const auto processes = *captured(busy_machine(), {.use = true, .anonymous = true}).gpus[1].use.processes;
  EXPECT_EQ(processes[0].user, processes[2].user);
  EXPECT_NE(processes[0].user, processes[1].user);
}

TEST(Capture, NumberedUuidsStayDistinct) {
  const model::Machine machine = captured(busy_machine(), {.anonymous = true});
  EXPECT_TRUE(machine.gpus[0].uuid.starts_with("GPU-"));
  EXPECT_NE(machine.gpus[0].uuid.substr(0, 12), machine.gpus[1].uuid.substr(0, 12));
}
