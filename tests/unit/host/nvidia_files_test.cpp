#include "host/gpu/nvidia/files.hpp"

#include <gtest/gtest.h>

#include "nvidia_machine.hpp"

namespace thole::host::nvidia {
namespace {

TEST(NvidiaFiles, InformationWithQuestionMarksIsUnknown) {
  Information fresh = parse_information(
      "Model: \t\t NVIDIA H200\nIRQ:   \t\t 17\nGPU UUID: \t GPU-" + std::string(8, '?') + "-" + std::string(4, '?') +
      "\nBus Type: \t PCIe\nBus Location: \t 0000:8d:00.0\nDevice Minor: \t 4\nGPU Excluded:\t No\n");
  EXPECT_EQ(fresh.uuid, "");
  EXPECT_EQ(fresh.model, "NVIDIA H200");
  EXPECT_EQ(fresh.minor, 4);
  EXPECT_FALSE(fresh.excluded);
  EXPECT_TRUE(parse_information("GPU Excluded:\t Yes\n").excluded);
}

TEST(NvidiaFiles, DamagedInformationIsUnknownNotWrong) {
  for (const char* text :
       {"", "\n\n", "Model", "Device Minor: -1", "Device Minor: 99999999999999999999", "Device Minor: 4x", "GPU UUID:"}) {
    Information information = parse_information(text);
    EXPECT_FALSE(information.minor) << text;
    EXPECT_EQ(information.uuid, "") << text;
  }
}

TEST(NvidiaFiles, DriverVersionOfEveryKindOfModule) {
  EXPECT_EQ(parse_driver_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  470.256.02  Thu May  2 14:37:44 UTC 2024\n"),
            "470.256.02");
  EXPECT_EQ(parse_driver_version("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.65.06  Release Build  "
                                 "(dvs-builder)\nGCC version:  gcc 12.2\n"),
            "580.65.06");
  EXPECT_EQ(parse_driver_version("NVRM version: NVIDIA\n"), "");
  EXPECT_EQ(parse_driver_version("GCC version: 12.2.0\n"), "");
}

TEST(NvidiaFiles, MigInstancesAreThoseThatExist) {
  NvidiaMachine machine(2);
  machine.file("/proc/driver/nvidia/capabilities/gpu1/mig/gi1/ci0/access", "DeviceFileMinor: 30\n");
  machine.file("/proc/driver/nvidia/capabilities/gpu1/mig/gi2/ci0/access", "DeviceFileMinor: 39\n");
  machine.file("/proc/driver/nvidia/capabilities/gpu1/mig/gi2/ci1/access", "DeviceFileMinor: 40\n");
  DriverFiles files = read_files(Tree(machine.root()));
  ASSERT_EQ(files.gpus.size(), 2u);
  EXPECT_TRUE(files.gpus[0].instances.empty());
  using Ids = std::array<int, 2>;
  EXPECT_EQ(files.gpus[1].instances, (std::vector<Ids>{{1, 0}, {2, 0}, {2, 1}}));
}

TEST(NvidiaFiles, MemoryThatIsANumaNodeIsCoherent) {
  NvidiaMachine machine(2);
  machine.file("/proc/driver/nvidia/gpus/" + NvidiaMachine::pci(0) + "/numa_status",
               "Node: 4\nStatus: online\nAddress: 1\nSize: 2\n");
  machine.file("/proc/driver/nvidia/gpus/" + NvidiaMachine::pci(1) + "/numa_status", "Node: -1\nStatus: disabled\n");
  DriverFiles files = read_files(Tree(machine.root()));
  EXPECT_TRUE(files.gpus.at(0).coherent);
  EXPECT_EQ(files.gpus.at(0).memory_numa, 4);
  EXPECT_FALSE(files.gpus.at(1).coherent);
  EXPECT_EQ(files.gpus.at(1).memory_numa, std::nullopt);
}

TEST(NvidiaFiles, ExcludedGpusAreLeftOutAndOrderIsByPciAddress) {
  NvidiaMachine machine(2);
  machine.file("/proc/driver/nvidia/gpus/10000:01:00.0/information", "Model: NVIDIA A2\nDevice Minor: 9\n");
  machine.file("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: NVIDIA A2\nDevice Minor: 8\nGPU Excluded: Yes\n");
  DriverFiles files = read_files(Tree(machine.root()));
  ASSERT_EQ(files.gpus.size(), 3u);
  EXPECT_EQ(files.gpus[0].pci.to_string(), NvidiaMachine::pci(0));
  EXPECT_EQ(files.gpus[2].pci.domain, 0x10000u);
}

}  // namespace
}  // namespace thole::host::nvidia
