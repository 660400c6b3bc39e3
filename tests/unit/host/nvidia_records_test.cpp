// Raw answers of drivers as tests/gpu keeps them (THOLE_RECORD_TO=FILE), replayed: a driver that nobody here has.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/gpu/nvidia/merge.hpp"
#include "test_folders.hpp"

namespace thole::host::nvidia {
namespace {

TEST(NvidiaRecords, AreReadWhole) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(THOLE_SOURCE_DIR "/tests/recorded/nvidia")) {
    ++files;
    Observed observed;
    const std::string text = read_file(entry.path().string()).value_or("");
    for (std::string_view line : split_lines(text)) observed.nvml.add(line);
    EXPECT_EQ(observed.nvml.garbage, 0u) << entry.path();
    ASSERT_TRUE(observed.nvml.driver && observed.nvml.driver->count) << entry.path();
    const port::Reading reading = merge(observed);
    EXPECT_EQ(reading.gpus.size(), observed.nvml.driver->count.value) << entry.path();
    for (const model::Gpu& gpu : reading.gpus) {
      EXPECT_NE(gpu.uuid, "") << entry.path();
      EXPECT_NE(gpu.model, "");
      EXPECT_TRUE(gpu.pci && gpu.memory_mib && gpu.use.processes.known());
      EXPECT_EQ(gpu.health, model::Health::ok) << gpu.health_reason;
    }
  }
  EXPECT_GT(files, 0);
}

}  // namespace
}  // namespace thole::host::nvidia
