// How much of the driver a look takes: every call costs the jobs that compute, and tens of milliseconds on a slow machine.
#include <gtest/gtest.h>

#include <algorithm>

#include "nvidia_machine.hpp"

namespace thole::host {
namespace {

using port::Purpose;

constexpr Millis calls_patience{20'000};

struct Board {
  const char* name;
  const char* config;                                      // of every GPU
};
void PrintTo(const Board& board, std::ostream* out) { *out << board.name; }

class NvidiaCalls : public testing::TestWithParam<Board> {
 protected:
  void SetUp() override { load(""); }

  void load(const std::string& more) const {
    machine.config("gpus 8\n" + machine.count_calls() + GetParam().config + more);
    machine.settle();
  }

  // Without what prepares to hear of Xids: once, for whoever stays, when an answer has been given.
  std::size_t asked() const {
    std::size_t count = 0;
    for (const std::string& name : machine.calls())
      count += name != "nvmlEventSetCreate" && name != "nvmlDeviceRegisterEvents";
    return count;
  }

  static std::string processes() {
    std::string lines;
    for (int i = 0; i < 8; ++i)
      lines += fmt::format("gpu {} process compute {} 500\ngpu {} memory 81920 596 600\n", i, 4000 + i, i);
    return lines;
  }

  NvidiaMachine machine{8};
};
INSTANTIATE_TEST_SUITE_P(
    All, NvidiaCalls,
    testing::Values(Board{"8 x A100", "gpu * nvswitch 12\n"},
                    Board{"8 x H100", "gpu * name NVIDIA H100 80GB HBM3\ngpu * nvswitch 18\ngpu * fabric 3 0\n"}),
    [](const auto& board) { return std::string(board.param.name).substr(4); });

TEST_P(NvidiaCalls, TheVeryFirstLookTakesAtMostAHundred) {
  for (Purpose purpose : {Purpose::claim, Purpose::show}) {
    NvidiaMachine fresh(8);
    fresh.config("gpus 8\n" + fresh.count_calls() + GetParam().config);
    NvidiaBackend backend(fresh.options());
    const port::Reading reading = backend.read(calls_patience, {purpose, {}});
    backend.rest();
    ASSERT_EQ(reading.gpus.size(), 8u);
    for (const model::Gpu& gpu : reading.gpus) {
      EXPECT_EQ(gpu.health, model::Health::ok) << gpu.health_reason;
      EXPECT_EQ(gpu.links.size(), 7u);
    }
    const std::size_t calls = fresh.calls().size();
    EXPECT_LE(calls, 100u);
    EXPECT_GT(calls, 30u);
  }
}

// Memory beside that of the process named: all three lists are asked.
TEST_P(NvidiaCalls, TheVeryFirstLookAtEightBusyGpusTakesAtMostAHundred) {
  for (Purpose purpose : {Purpose::claim, Purpose::show}) {
    NvidiaMachine fresh(8);
    fresh.config("gpus 8\n" + fresh.count_calls() + GetParam().config + processes());
    NvidiaBackend backend(fresh.options());
    const port::Reading reading = backend.read(calls_patience, {purpose, {}});
    backend.rest();
    EXPECT_EQ(reading.observation.problem, "");
    ASSERT_EQ(reading.gpus.size(), 8u);
    for (const model::Gpu& gpu : reading.gpus) {
      EXPECT_EQ(gpu.use.processes.value_or({}).size(), 1u);
      EXPECT_EQ(gpu.display, false);
      EXPECT_EQ(gpu.links.size(), 7u);
      EXPECT_EQ(gpu.use.temperature_c.known(), purpose == Purpose::show);
    }
    const std::vector<std::string> calls = fresh.calls();
    EXPECT_LE(calls.size(), 100u) << testing::PrintToString(calls);
    EXPECT_EQ(std::count(calls.begin(), calls.end(), "nvmlDeviceGetMPSComputeRunningProcesses_v3"), 8);
  }
}

TEST_P(NvidiaCalls, AColdLookTakesAtMostAHundred) {
  NvidiaBackend(machine.options()).read(calls_patience);
  for (const std::string& load_line : {std::string(), processes()}) {
    load(load_line);
    for (Purpose purpose : {Purpose::claim, Purpose::show}) {
      machine.calls();
      NvidiaBackend backend(machine.options());
      ASSERT_EQ(backend.read(calls_patience, {purpose, {}}).observation.problem, "");
      backend.rest();
      const std::size_t calls = machine.calls().size();
      EXPECT_LE(calls, 100u) << static_cast<int>(purpose) << load_line;
      EXPECT_GT(calls, 30u);
    }
  }
}

TEST_P(NvidiaCalls, AWarmLookOfAClaimTakesAtMostForty) {
  for (const std::string& load_line : {std::string(), processes()}) {
    load(load_line);
    NvidiaBackend backend(machine.options());
    backend.read(calls_patience, {Purpose::claim, {}});
    backend.read(calls_patience, {Purpose::claim, {}});            // by now Xids are listened for
    machine.calls();
    ASSERT_EQ(backend.read(calls_patience, {Purpose::claim, {}}).observation.problem, "");
    EXPECT_LE(asked(), 40u) << load_line;
  }
}

TEST_P(NvidiaCalls, AWarmLookOfStatusTakesAtMostForty) {
  for (const std::string& load_line : {std::string(), processes()}) {
    load(load_line);
    NvidiaBackend backend(machine.options());
    const auto first = backend.read(calls_patience).gpus;
    backend.read(calls_patience);
    machine.calls();
    const port::Reading reading = backend.read(calls_patience);
    ASSERT_EQ(reading.observation.problem, "");
    const std::size_t calls = asked();
    EXPECT_LE(calls, 40u) << load_line;
    EXPECT_GT(calls, 30u);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_TRUE(reading.gpus.at(i).use.temperature_c.known() && reading.gpus[i].display == false);
      EXPECT_EQ(*reading.gpus[i].use.processes, *first.at(i).use.processes);
      EXPECT_EQ((*reading.gpus[i].use.processes).size(), load_line.empty() ? 0u : 1u);
    }
  }
}

// What the lists explain of the memory in use has changed: somebody draws, or an MPS client has come or gone.
TEST_P(NvidiaCalls, AWarmLookOfStatusSeesWhoComesAndWhoGoes) {
  load(processes());
  NvidiaBackend backend(machine.options());
  const auto seen = [&] { return (*backend.read(calls_patience).gpus.at(3).use.processes).size(); };
  EXPECT_EQ(seen(), 1u);
  EXPECT_EQ(seen(), 1u);
  load(processes() + "gpu 3 process graphics 5000 80\ngpu 3 memory 81920 596 680\n");
  EXPECT_EQ(seen(), 2u);
  load(processes() + "gpu 3 process mps 5001 300\ngpu 3 memory 81920 596 900\n");
  EXPECT_EQ(seen(), 2u);
  load(processes());
  EXPECT_EQ(seen(), 1u);
  load("");
  EXPECT_EQ(seen(), 0u);
  load(processes());
  EXPECT_EQ(seen(), 1u);
}

TEST_P(NvidiaCalls, TheLookAfterTheLockAsksTheClaimedGpuOnly) {
  NvidiaBackend backend(machine.options());
  backend.read(calls_patience, {Purpose::claim, {}});
  load(processes());
  machine.calls();
  const port::Reading reading = backend.read(calls_patience, {Purpose::claim, {NvidiaMachine::uuid(3)}});
  EXPECT_LE(asked(), 9u);
  ASSERT_EQ(reading.gpus.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(reading.gpus[i].health, model::Health::ok);
    EXPECT_EQ(reading.gpus[i].use.processes.value_or({}).size(), i == 3 ? 1u : 0u) << i << ": what was read before will do";
  }
}

TEST_P(NvidiaCalls, WhoAGpuIsAndItsLinksAreAskedOnceADriversLife) {
  const auto links = [&] { return NvidiaBackend(machine.options()).read(calls_patience).gpus.at(2).links; };
  const auto first = links();
  ASSERT_EQ(first.size(), 7u);
  EXPECT_EQ(first[0].kind, model::LinkKind::nvswitch);
  machine.calls();
  EXPECT_EQ(links(), first);
  for (const std::string& name : machine.calls())
    for (const char* unchanging : {"nvmlDeviceGetSerial", "nvmlDeviceGetNvLinkState", "nvmlDeviceGetP2PStatus"})
      EXPECT_NE(name, unchanging);
  machine.file("/proc/sys/kernel/random/boot_id", "0f0e0d0c-0000-4000-8000-000000000002\n");
  machine.config("gpus 8\n" + machine.count_calls() + "gpu * nvswitch 6\n");
  EXPECT_EQ(links()[0].count, 6) << "another boot";
}

// What others can write must not name GPUs.
TEST_P(NvidiaCalls, WhatOthersCouldHaveWrittenIsNotBelieved) {
  NvidiaBackend(machine.options()).read(calls_patience);
  const std::string kept = machine.runtime_dir() + "/nvidia";
  ASSERT_TRUE(std::filesystem::exists(kept));
  std::filesystem::permissions(kept, std::filesystem::perms::group_write, std::filesystem::perm_options::add);
  machine.calls();
  NvidiaBackend(machine.options()).read(calls_patience);
  const auto names = machine.calls();
  EXPECT_NE(std::find(names.begin(), names.end(), "nvmlDeviceGetSerial"), names.end());
}

// A GPU without connectors is asked for its display where something draws on it; one with connectors always.
TEST(NvidiaDisplay, OfAGpuWithoutConnectorsIsTheServerThatDrawsThere) {
  NvidiaMachine machine(3);
  machine.config("gpus 3\n" + machine.count_calls() +
                 "gpu 0 process compute 4000 500\ngpu 1 display 1\n"
                 "gpu 1 process graphics 4001 80\ngpu 1 memory 81920 596 80\ngpu 2 display 1\n");
  machine.file("/sys/bus/pci/devices/" + NvidiaMachine::pci(2) + "/class", "0x030000\n");
  const port::Reading reading = NvidiaBackend(machine.options()).read(calls_patience);
  ASSERT_EQ(reading.gpus.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(reading.gpus[i].display, i > 0) << i;
  const auto calls = machine.calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "nvmlDeviceGetDisplayActive"), 2) << testing::PrintToString(calls);
}

// What the library does not find by its address it is asked for by number.
TEST(NvidiaHandles, AreAskedForByNumberWhereTheAddressDoesNotLeadToThem) {
  for (const char* how : {"rc nvmlDeviceGetHandleByPciBusId_v2 6\n", "gpu 1 pci 00000000:33:00.0\n", "gpus 3\n"}) {
    NvidiaMachine machine(2);
    machine.config(std::string("gpus 2\n") + how);
    const port::Reading reading = NvidiaBackend(machine.options()).read(calls_patience);
    std::size_t well = 0;
    for (const model::Gpu& gpu : reading.gpus) well += gpu.health == model::Health::ok && gpu.use.processes.known();
    EXPECT_EQ(well, std::string(how) == "gpus 3\n" ? 3u : 2u) << how;
  }
}

// A fabric that is not joined yet may have more links soon.
TEST(NvidiaIdentities, AreNotKeptWhileTheFabricIsBeingJoinedNorInTheFirstMinutes) {
  NvidiaMachine machine(2);
  machine.settle();
  const std::string kept = machine.runtime_dir() + "/nvidia";
  machine.config("gpus 2\ngpu * nvswitch 18\ngpu * fabric 2 0\n");
  NvidiaBackend(machine.options()).read(calls_patience);
  EXPECT_FALSE(std::filesystem::exists(kept));
  machine.config("gpus 2\ngpu * nvswitch 18\ngpu * fabric 3 0\n");
  machine.file("/proc/uptime", "60.00 60.00\n");
  NvidiaBackend(machine.options()).read(calls_patience);
  EXPECT_FALSE(std::filesystem::exists(kept));
  machine.settle();
  NvidiaBackend(machine.options()).read(calls_patience);
  EXPECT_TRUE(std::filesystem::exists(kept));
}

}  // namespace
}  // namespace thole::host
