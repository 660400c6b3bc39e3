// Xids in the kernel's log: the parser on lines as kernels and drivers write them, and what they mean beside the library's
// word.
#include "host/gpu/nvidia/kernel_log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nvidia_machine.hpp"

namespace thole::host::nvidia {
namespace {

using model::Health;
using testing::HasSubstr;

const model::PciAddress first = *model::PciAddress::parse("0000:07:00.0");

TEST(KernelLog, LinesOfEveryKindAreRead) {
  for (const char* line : {
           "<3>[ 4242.123456] NVRM: Xid (PCI:0000:07:00): 31, pid=1234, name=python, Ch 00000010, intr 00000000",
           "<4>[ 4242.123456][ T1234] NVRM: Xid (PCI:0000:07:00): 31, pid=1234, name=python",
           "[ 4242.123456] NVRM: Xid (PCI:0000:07:00): 31, pid=1234",
           "4,1234,4242123456,-;NVRM: Xid (PCI:0000:07:00): 31, pid=1234",
           "6,1234,4242123456,-,caller=T77;NVRM: Xid (PCI:0000:07:00): 31, pid=1234",
           "NVRM: Xid (0000:07:00): 31, Ch 00000010",
           "NVRM: Xid (PCI:0000:07:00): 31"}) {
    const auto xids = parse_xids(line);
    ASSERT_EQ(xids.size(), 1u) << line;
    EXPECT_EQ(xids.at(first).last, 31) << line;
    EXPECT_FALSE(xids.at(first).fatal) << line;
  }
}

// Names of programs are anybody's; they stand within lines, or before a pid in brackets.
TEST(KernelLog, LinesThatOnlyLookLikeItAreNone) {
  for (const char* line : {
           "<6>[ 1.0] python[77]: NVRM: Xid (PCI:0000:07:00): 79, pid=1",
           "<6>[ 1.0] NVRM: Xid (PCI:[77]: segfault at 0 ip 0 sp 0 error 4",
           "<3>[ 1.0] NVRM: Xid (PCI:0000:07:00): , pid=1",
           "<3>[ 1.0] NVRM: Xid (PCI:0000:07:00): 4294967296000, pid=1",
           "<3>[ 1.0] NVRM: Xid (PCI:zz:07:00): 79, pid=1",
           "<3>[ 1.0] NVRM: GPU at PCI:0000:07:00: GPU-2b2f1c6b",
           "NVRM: Xid (", "NVRM: ", "<3>[", "1", ""})
    EXPECT_TRUE(parse_xids(line).empty()) << line;
}

TEST(KernelLog, TheLastOfEachGpuCountsAndTheFirstFatalStays) {
  const auto xids = parse_xids("<3>[ 1.0] NVRM: Xid (PCI:0000:07:00): 48, pid=1\n"
                               "<3>[ 2.0] NVRM: Xid (PCI:0000:0f:00): 13, pid=2\n"
                               "<3>[ 3.0] NVRM: Xid (PCI:0000:07:00): 45, pid=1\n");
  EXPECT_EQ(xids.at(first).last, 45);
  EXPECT_EQ(xids.at(first).fatal, 48);
  EXPECT_EQ(xids.at(*model::PciAddress::parse("0000:0f:00.0")).last, 13);
}

TEST(KernelLog, WhatWasBeforeTheDriverWasLoadedIsPast) {
  const std::string xid = "<3>[ 1.0] NVRM: Xid (PCI:0000:07:00): 79, pid=1\n";
  const std::string load = "<4>[ 2.0] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.65.06\n";
  EXPECT_TRUE(parse_xids(xid + load).empty());
  EXPECT_EQ(parse_xids(load + xid).size(), 1u);
}

TEST(KernelLog, ARecoveryThatTheDriverTakesBackIsNone) {
  const std::string needed =
      "<3>[ 1.0] NVRM: Xid (PCI:0000:07:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n";
  const std::string done =
      "<3>[ 2.0] NVRM: Xid (PCI:0000:07:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)\n";
  EXPECT_EQ(parse_xids(needed).at(first).fatal, 154);
  EXPECT_FALSE(parse_xids(needed + done).at(first).fatal);
}

// The driver says what it wants done; a reset is only one of seven things.
TEST(KernelLog, TheRecoveryThatTheDriverWantsIsToldAsItSaysIt) {
  NvidiaMachine machine(1);
  machine.config("gpus 1\ngpu * rc nvmlDeviceGetFieldValues 3\n");
  machine.file("/dev/kmsg", "<3>[ 1.0] NVRM: Xid (PCI:0000:07:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 "
                            "(Node Reboot Required)\n");
  const model::Gpu gpu = NvidiaBackend(machine.options()).read(Millis(8000)).gpus.at(0);
  EXPECT_EQ(gpu.health, Health::reset_required);
  EXPECT_THAT(gpu.health_reason, HasSubstr("sudo reboot"));
  EXPECT_EQ(gpu.health_reason.find("--gpu-reset"), std::string::npos);
  EXPECT_EQ(gpu.health_reason.find("dmesg -C"), std::string::npos) << "that takes everybody's log away";
}

TEST(KernelLog, AnUnreadableOneIsUnknown) {
  EXPECT_FALSE(read_kernel_log(Tree("/nonexistent")));
}

// Without the field that says which recovery is needed, as before driver 550.
constexpr const char* old_driver = "gpus 2\ngpu * rc nvmlDeviceGetFieldValues 3\n";

TEST(KernelLog, AFatalXidMakesTheGpuSickAndAnotherIsShown) {
  NvidiaMachine machine(2);
  machine.config(old_driver);
  machine.file("/dev/kmsg",
               "<3>[ 1.0] NVRM: Xid (PCI:0000:07:00): 31, pid=1\n<3>[ 2.0] NVRM: Xid (PCI:0000:0f:00): 48, pid=2\n");
  const port::Reading reading = NvidiaBackend(machine.options()).read(Millis(8000));
  ASSERT_EQ(reading.gpus.size(), 2u);
  EXPECT_EQ(reading.gpus[0].health, Health::ok);
  EXPECT_EQ(reading.gpus[0].last_xid, 31);
  EXPECT_EQ(reading.gpus[1].health, Health::reset_required);
  EXPECT_EQ(reading.gpus[1].last_xid, 48);
  EXPECT_THAT(reading.gpus[1].health_reason, HasSubstr("Xid 48"));
}

TEST(KernelLog, TheLibraryHasTheLastWordWhereItHasOne) {
  NvidiaMachine machine(2);  // this driver says that no recovery is needed
  machine.file("/dev/kmsg",
               "<3>[ 1.0] NVRM: Xid (PCI:0000:07:00): 79, pid=1\n<3>[ 2.0] NVRM: Xid (PCI:0000:0f:00): 48, pid=2\n");
  port::Reading reading = NvidiaBackend(machine.options()).read(Millis(8000));
  for (const model::Gpu& gpu : reading.gpus) EXPECT_EQ(gpu.health, Health::ok) << gpu.health_reason;
  EXPECT_EQ(reading.gpus[1].last_xid, 48);
  machine.config(old_driver);
  reading = NvidiaBackend(machine.options()).read(Millis(8000));
  EXPECT_EQ(reading.gpus[0].health, Health::ok) << "it answers, so it is on the bus again";
}

TEST(KernelLog, ADriverThatDoesNotAnswerStillLeavesTheLastXid) {
  NvidiaMachine machine(1);
  machine.config("gpus 1\nhang nvmlInit_v2\n");
  machine.file("/dev/kmsg", "<3>[ 1.0] NVRM: Xid (PCI:0000:07:00): 119, pid=1, Timeout waiting for RPC from GSP\n");
  const port::Reading reading = NvidiaBackend(machine.options()).read(Millis(300));
  ASSERT_EQ(reading.gpus.size(), 1u);
  EXPECT_EQ(reading.gpus[0].health, Health::hung);
  EXPECT_EQ(reading.gpus[0].last_xid, 119);
}

}  // namespace
}  // namespace thole::host::nvidia
