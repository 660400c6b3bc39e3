// A number in a visible-devices list is the vendor runtime's own; where that is not the position here, the machine says it.
#include <gtest/gtest.h>

#include "model/unit.hpp"
#include "plan/environment/environment.hpp"

namespace thole::plan {
namespace {

// GPUs of one vendor without UUIDs, with the runtime's numbers; -1 where it is the position.
model::Snapshot machine(model::Vendor vendor, const std::vector<int>& numbers) {
  model::Snapshot snapshot;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    model::Gpu& gpu = snapshot.machine.gpus.emplace_back();
    gpu.vendor = vendor;
    gpu.pci = model::PciAddress{0, static_cast<std::uint8_t>(i + 3), 0, 0};
    if (numbers[i] >= 0) gpu.cuda_index = numbers[i];
  }
  return snapshot;
}

std::string list(const model::Snapshot& snapshot, const std::vector<std::size_t>& chosen, const char* variable) {
  const auto units = model::units(snapshot.machine);
  return environment(chosen, units, snapshot, {}, Ids::automatic, true, "0011223344556677").set[variable];
}

TEST(RuntimeNumbers, RocmCountsInTheKernelsOrder) {
  EXPECT_EQ(list(machine(model::Vendor::amd, {1, 0, -1}), {0, 2}, "ROCR_VISIBLE_DEVICES"), "1,2");
  EXPECT_EQ(list(machine(model::Vendor::amd, {-1, -1}), {1}, "ROCR_VISIBLE_DEVICES"), "1");
}

TEST(RuntimeNumbers, LevelZeroCountsTheCpusGraphics) {
  EXPECT_EQ(list(machine(model::Vendor::intel, {1, 2}), {0, 1}, "ZE_AFFINITY_MASK"), "1,2");
  EXPECT_EQ(list(machine(model::Vendor::intel, {-1, -1}), {0, 1}, "ZE_AFFINITY_MASK"), "0,1");
}

}  // namespace
}  // namespace thole::plan
