// Peak memory of processes by the driver's accounting mode: the rule, and the whole way through the probe and a fake driver.
#include "host/gpu/nvidia/accounts.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "base/text.hpp"
#include "nvidia_machine.hpp"

namespace thole::host {
namespace {

using nvidia::RawAccount;
using nvidia::RawAccounts;

constexpr Millis accounts_patience{8'000};
constexpr WallTime job_began{Millis{1'000'000}}, job_ended{Millis{2'000'000}};
constexpr std::uint64_t mib = 1u << 20, us = 1'000;        // a millisecond in microseconds

using Peak = std::optional<std::uint64_t>;
Peak peak(std::vector<RawAccounts> all) { return nvidia::peak_memory_mib(all, job_began, job_ended); }
RawAccounts gpu(std::vector<RawAccount> list) { return {"GPU-a", list}; }

TEST(NvidiaAccounts, TheLargestProcessOfAnyGpuCounts) {
  const RawAccount first{1, 300 * mib, 1'000'000 * us}, last{2, 500 * mib, 2'000'000 * us}, other{3, 400 * mib, 1'500'000 * us};
  EXPECT_EQ(peak({gpu({first, last}), gpu({other})}), 500u);
  EXPECT_EQ(peak({gpu({first}), gpu({other})}), 400u);
  EXPECT_EQ(peak({gpu({{1, 300 * mib + 1, 1'500'000 * us}})}), 301u);
}

TEST(NvidiaAccounts, WhatStartedBeforeOrAfterTheSpanIsAnothers) {
  const RawAccount before{1, 900 * mib, 1'000'000 * us - 1}, within{2, 7 * mib, 1'500'000 * us};
  const RawAccount after{3, 900 * mib, 2'000'001 * us};
  EXPECT_EQ(peak({gpu({before, within, after})}), 7u);
  EXPECT_EQ(peak({gpu({before, after})}), Peak());         // no process of ours is not a zero
  EXPECT_EQ(peak({gpu({})}), Peak());
}

TEST(NvidiaAccounts, AGpuOrAProcessThatCannotBeReadMakesTheWholeUnknown) {
  const RawAccount known{1, 300 * mib, 1'500'000 * us}, untold{2, nvidia::abi::not_available, 1'500'000 * us};
  RawAccounts refused{"GPU-b", {}};
  refused.list = decltype(refused.list)::refused(nvidia::abi::no_permission);
  EXPECT_EQ(peak({gpu({known}), refused}), Peak());
  EXPECT_EQ(peak({gpu({known, untold})}), Peak());
}

// As a lane looks: at all GPUs, then at those it has claimed.
void look_at(NvidiaBackend& backend, const std::vector<std::string>& keys) {
  backend.read(accounts_patience, {port::Purpose::claim, {}});
  backend.read(accounts_patience, {port::Purpose::claim, keys});
}

// The same through the backend, in the span above.
Peak read_peak(const NvidiaMachine& machine, const std::vector<int>& gpus, const std::string& variant = "full") {
  NvidiaBackend backend(machine.options(variant));
  std::vector<std::string> keys;
  for (int i : gpus) keys.push_back(NvidiaMachine::uuid(i));
  look_at(backend, keys);
  return backend.peak_memory_mib(keys, job_began, job_ended, accounts_patience);
}

std::string account(int gpu, int pid, int size_mib, std::uint64_t started_us) {
  return fmt::format("gpu {} account {} {} {}\n", gpu, pid, size_mib, started_us);
}

TEST(NvidiaAccounts, AreReadOfTheGpusAskedFor) {
  NvidiaMachine machine(3);
  machine.config("gpus 3\ngpu * accounting 1\n" + account(0, 10, 800, 1'500'000 * us) + account(1, 11, 300, 1'500'000 * us) +
                 account(1, 12, 400, 1'600'000 * us) + account(1, 13, 900, 999 * us) + account(2, 14, 350, 1'700'000 * us));
  EXPECT_EQ(read_peak(machine, {1, 2}), 400u);
  EXPECT_EQ(read_peak(machine, {2}), 350u);
  EXPECT_EQ(read_peak(machine, {}), Peak());
}

TEST(NvidiaAccounts, ALongRingIsReadWhole) {
  NvidiaMachine machine(1);
  std::string config = "gpus 1\ngpu 0 accounting 1\n";
  for (int i = 1; i <= 5'000; ++i) config += account(0, i, i, 1'500'000 * us);
  machine.config(config);
  EXPECT_EQ(read_peak(machine, {0}), 5'000u);
}

TEST(NvidiaAccounts, AProcessThatHasDroppedOutOfTheRingIsPassedOver) {
  NvidiaMachine machine(1);
  machine.config("gpus 1\ngpu 0 accounting 1\n" + account(0, 0, 900, 1'500'000 * us) + account(0, 10, 30, 1'500'000 * us));
  EXPECT_EQ(read_peak(machine, {0}), 30u);
}

TEST(NvidiaAccounts, WhatTheDriverDoesNotTellIsUnknown) {
  NvidiaMachine machine(2);
  const std::string one = account(0, 10, 800, 1'500'000 * us), on = "gpus 2\ngpu 0 accounting 1\n" + one;
  machine.config(on);
  ASSERT_EQ(read_peak(machine, {0}), 800u);
  EXPECT_EQ(read_peak(machine, {0, 1}), Peak()) << "the other one keeps no accounts";
  EXPECT_EQ(read_peak(machine, {0}, "minimal"), Peak()) << "a library without these functions";
  for (const char* refusal : {"gpus 2\ngpu 0 accounting 0\n", "gpus 2\ngpu 0 accounting 1\ngpu 0 mig 1\n"}) {
    machine.config(refusal + one);
    EXPECT_EQ(read_peak(machine, {0}), Peak()) << refusal;
  }
  for (const char* fault : {"rc nvmlDeviceGetAccountingMode 3", "rc nvmlDeviceGetAccountingPids 4",
                            "rc nvmlDeviceGetAccountingStats 15", "rc nvmlDeviceGetHandleByUUID 15",
                            "crash nvmlDeviceGetAccountingStats", "exit nvmlDeviceGetAccountingPids"}) {
    machine.config(on + "gpu 0 " + fault + "\n");
    EXPECT_EQ(read_peak(machine, {0}), Peak()) << fault;
  }
}

TEST(NvidiaAccounts, ADriverThatKeepsNoneIsNotAsked) {
  NvidiaMachine machine(1);
  NvidiaBackend backend(machine.options());
  look_at(backend, {NvidiaMachine::uuid(0)});
  backend.rest();
  machine.config("gpus 1\nhang *\n");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(backend.peak_memory_mib({NvidiaMachine::uuid(0)}, job_began, job_ended, accounts_patience), Peak());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, Millis(1'000));
}

TEST(NvidiaAccounts, ADriverThatWasLateIsNotAskedAgain) {
  NvidiaMachine machine(1);
  machine.config("gpus 1\ngpu 0 accounting 1\n" + account(0, 10, 800, 1'500'000 * us) + "hang nvmlDeviceGetAccountingStats\n");
  NvidiaBackend backend(machine.options());
  backend.read(accounts_patience);
  const std::vector<std::string> gpus{NvidiaMachine::uuid(0)};
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(backend.peak_memory_mib(gpus, job_began, job_ended, Millis(300)), Peak());
  EXPECT_EQ(backend.peak_memory_mib(gpus, job_began, job_ended, accounts_patience), Peak());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, Millis(4'000));
  machine.config("gpus 1\ngpu 0 accounting 1\n" + account(0, 10, 800, 1'500'000 * us));
  backend.read(accounts_patience);
  EXPECT_EQ(backend.peak_memory_mib(gpus, job_began, job_ended, accounts_patience), 800u);   // and it is forgiven
}

// The last answer is shown while a driver hangs: accounts must not take the place of a reading of the machine.
TEST(NvidiaAccounts, AreNotRememberedAsAReading) {
  NvidiaMachine machine(1);
  machine.config("gpus 1\ngpu 0 accounting 1\n" + account(0, 10, 800, 1'500'000 * us));
  ASSERT_EQ(read_peak(machine, {0}), 800u);
  machine.config("gpus 1\nhang nvmlInit_v2\n");
  NvidiaBackend backend(machine.options());
  const port::Reading reading = backend.read(Millis(400));
  ASSERT_TRUE(reading.observation.age);
  ASSERT_EQ(reading.gpus.size(), 1u);
  EXPECT_EQ(*reading.gpus[0].use.memory_used_mib, 0u);
}

}  // namespace
}  // namespace thole::host
