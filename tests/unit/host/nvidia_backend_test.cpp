// The whole way: kernel files, probe process, fake driver library, merged reading.
#include "host/gpu/nvidia/backend.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "host/topology/live.hpp"
#include "nvidia_machine.hpp"

namespace thole::host {
namespace {

using model::Health;
using testing::HasSubstr;

constexpr Millis plenty{8'000};

port::Reading read(const NvidiaMachine& machine, const std::string& variant = "full", Millis patience = plenty) {
  return NvidiaBackend(machine.options(variant)).read(patience);
}

TEST(NvidiaBackend, ReadsIdentityAndUseOfEveryGpu) {
  NvidiaMachine machine(8);
  machine.config("gpus 8\ngpu 3 process compute 4711 11000\ngpu 3 memory 81920 596 11000\ngpu 3 util 97 40\ngpu 3 temp 61\n");
  port::Reading reading = read(machine);
  EXPECT_EQ(reading.observation.problem, "");
  EXPECT_EQ(reading.observation.source, "nvml 580.65.06");
  ASSERT_EQ(reading.gpus.size(), 8u);
  const model::Gpu& idle = reading.gpus[0];
  EXPECT_EQ(idle.uuid, NvidiaMachine::uuid(0));
  EXPECT_EQ(idle.pci->to_string(), "0000:07:00.0");
  EXPECT_EQ(idle.health, Health::ok);
  EXPECT_EQ(*idle.use.memory_used_mib, 0u);                // the driver's reserve is not use
  EXPECT_TRUE((*idle.use.processes).empty());
  const model::Gpu& busy = reading.gpus[3];
  EXPECT_EQ(*busy.use.memory_used_mib, 11000u);
  EXPECT_EQ(*busy.use.utilization_percent, 97);
  EXPECT_EQ(*busy.use.temperature_c, 61);
  ASSERT_EQ((*busy.use.processes).size(), 1u);
  EXPECT_EQ((*busy.use.processes)[0].pid, 4711);
  EXPECT_EQ(*(*busy.use.processes)[0].memory_mib, 11000u);
}

TEST(NvidiaBackend, ReadsWhatStandsOnTheBoardAndBesideIt) {
  NvidiaMachine machine(2);
  machine.file("/sys/bus/pci/devices/" + NvidiaMachine::pci(1) + "/class", "0x030000\n");
  machine.config("gpus 2\ngpu 0 memory 81920 596 11000\ngpu 1 serial 1562821000042\ngpu 1 monitor 1\n");
  const port::Reading reading = read(machine);
  ASSERT_EQ(reading.gpus.size(), 2u);
  EXPECT_EQ(reading.gpus[0].driver, "580.65.06");
  EXPECT_EQ(reading.gpus[0].serial, "");                   // no board number: not every board has one
  EXPECT_EQ(reading.gpus[1].serial, "1562821000042");
  EXPECT_EQ(*reading.gpus[0].use.memory_free_mib, 81920u - 596 - 11000);
  EXPECT_EQ(*reading.gpus[0].monitor, false);
  EXPECT_EQ(*reading.gpus[1].monitor, true);
  EXPECT_EQ(*reading.gpus[1].display, false);              // a monitor is plugged in, nothing is shown on it
}

TEST(NvidiaBackend, ReadsSixteenGpus) {
  NvidiaMachine machine(16);
  port::Reading reading = read(machine);
  ASSERT_EQ(reading.gpus.size(), 16u);
  for (const model::Gpu& gpu : reading.gpus) EXPECT_EQ(gpu.health, Health::ok) << gpu.health_reason;
}

TEST(NvidiaBackend, AWarmProbeIsAskedAgainAndSeesTheChange) {
  NvidiaMachine machine(2);
  NvidiaBackend backend(machine.options());
  EXPECT_TRUE((*backend.read(plenty).gpus[1].use.processes).empty());
  machine.config("gpus 2\ngpu 1 process compute 99 100\n");
  EXPECT_EQ((*backend.read(plenty).gpus[1].use.processes).size(), 1u);
}

TEST(NvidiaBackend, OneGpuThatHangsDoesNotHideTheOthers) {
  NvidiaMachine machine(8);
  machine.config("gpus 8\ngpu 2 hang nvmlDeviceGetHandleByIndex_v2\n");
  port::Reading reading = read(machine, "full", Millis(1'500));
  ASSERT_EQ(reading.gpus.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i)
    EXPECT_EQ(reading.gpus[i].health, i == 2 ? Health::hung : Health::ok) << i << reading.gpus[i].health_reason;
  EXPECT_TRUE(reading.observation.answered);
  EXPECT_THAT(reading.observation.problem, HasSubstr("1 of 8"));
}

TEST(NvidiaBackend, AGpuThatHangsWhileOthersAnswerCostsAPartOfThePatience) {
  NvidiaMachine machine(8);
  machine.config("gpus 8\ngpu 0 hang nvmlDeviceGetMemoryInfo_v2\n");
  constexpr Millis patience{20'000};
  const auto begin = std::chrono::steady_clock::now();
  const port::Reading reading = read(machine, "full", patience);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, patience / 2);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(reading.gpus[i].health, i == 0 ? Health::hung : Health::ok) << i;
}

TEST(NvidiaBackend, ASlowDriverIsNotAHungOne) {
  NvidiaMachine machine(8);
  machine.config("gpus 8\ndelay_us * 60000\n");            // some six seconds for all of them
  const port::Reading reading = read(machine, "full", Millis(60'000));
  for (const model::Gpu& gpu : reading.gpus) EXPECT_EQ(gpu.health, Health::ok) << gpu.health_reason;
}

// A driver that is still answering when the patience is over goes on, and the next reading takes up where this one stopped.
TEST(NvidiaBackend, WhatASlowDriverHasNotYetSaidIsHeardByTheNextReading) {
  NvidiaMachine machine(8);
  machine.config("gpus 8\n" + machine.count_calls() + "delay_us * 20000\n");
  NvidiaBackend backend(machine.options());
  int readings = 0;
  while (backend.read(Millis(400)).observation.problem != "") ASSERT_LT(++readings, 200);
  EXPECT_GT(readings, 0) << "all of it takes two seconds";
  const auto calls = machine.calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "nvmlInit_v2"), 1);
}

// What was read before a GPU began to hang must not make the others look old.
TEST(NvidiaBackend, OneGpuThatHangsDoesNotMakeTheOthersOld) {
  NvidiaMachine machine(2);
  ASSERT_EQ(read(machine).observation.problem, "");
  machine.config("gpus 2\ngpu 1 hang nvmlDeviceGetMemoryInfo_v2\n");
  const port::Reading reading = read(machine, "full", Millis(1'000));
  EXPECT_EQ(reading.gpus[1].health, Health::hung);
  EXPECT_FALSE(reading.observation.age);
}

TEST(NvidiaBackend, AGpuThatHungIsReadLastAndWaitedForOnlyShortly) {
  NvidiaMachine machine(4);
  machine.config("gpus 4\ngpu 0 hang nvmlDeviceGetMemoryInfo_v2\n");
  read(machine, "full", Millis(1'000));
  auto begin = std::chrono::steady_clock::now();
  port::Reading reading = read(machine, "full", plenty);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, Millis(3'000));
  EXPECT_EQ(reading.gpus[0].health, Health::hung);
  EXPECT_EQ(reading.gpus[3].health, Health::ok);
  machine.config("gpus 4\n");
  EXPECT_EQ(read(machine).gpus[0].health, Health::ok);     // and it is forgiven
}

TEST(NvidiaBackend, AHungLibraryLeavesTheFilesAndTheLastAnswerWithItsAge) {
  NvidiaMachine machine(2);
  machine.config("gpus 2\ngpu 1 process compute 99 100\n");
  ASSERT_EQ(read(machine).observation.problem, "");
  machine.config("gpus 2\nhang nvmlInit_v2\n");
  auto begin = std::chrono::steady_clock::now();
  port::Reading reading = read(machine, "full", Millis(400));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, Millis(2'000));
  EXPECT_FALSE(reading.observation.answered);
  ASSERT_TRUE(reading.observation.age);
  ASSERT_EQ(reading.gpus.size(), 2u);
  EXPECT_EQ(reading.gpus[1].health, Health::hung);
  EXPECT_EQ(reading.gpus[1].uuid, NvidiaMachine::uuid(1));
  EXPECT_EQ((*reading.gpus[1].use.processes).size(), 1u);  // as last seen
}

struct Fault {
  const char* config;
  const char* variant;
  Health health;
  const char* problem;
};
class NvidiaFaults : public testing::TestWithParam<Fault> {};
INSTANTIATE_TEST_SUITE_P(
    All, NvidiaFaults,
    testing::Values(Fault{"gpus 2\ninit 18\n", "full", Health::driver_mismatch, "reboot"},
                    Fault{"gpus 2\ninit 9\n", "full", Health::unreadable, "modprobe nvidia"},
                    Fault{"gpus 2\ninit 4\n", "full", Health::unreadable, "group"},
                    Fault{"gpus 2\ninit 999\n", "full", Health::unreadable,
                          "In a container: its devices were taken from it, as systemctl daemon-reload does; restart it"},
                    Fault{"", "stub", Health::unreadable, "stub"},
                    Fault{"", "missing", Health::unreadable, "cannot be loaded"},
                    Fault{"gpus 2\nrc nvmlDeviceGetCount_v2 20\n", "full", Health::unreadable, "count"},
                    Fault{"gpus 2\ncrash nvmlInit_v2\n", "full", Health::unreadable, "signal 6"},
                    Fault{"gpus 2\nexit nvmlInit_v2\n", "full", Health::unreadable, "status 7"}));

TEST_P(NvidiaFaults, AreSaidWithTheFixAndTheGpusOfTheFilesStay) {
  NvidiaMachine machine(2);
  machine.config(GetParam().config);
  port::Reading reading = read(machine, GetParam().variant);
  ASSERT_EQ(reading.gpus.size(), 2u);
  for (const model::Gpu& gpu : reading.gpus) EXPECT_EQ(gpu.health, GetParam().health) << gpu.health_reason;
  EXPECT_THAT(reading.observation.problem, HasSubstr(GetParam().problem));
}

TEST(NvidiaBackend, OneLostGpuAmongEightIsNamedAndTheOthersAreRead) {
  for (const char* how : {"gpu 5 rc nvmlDeviceGetHandleByIndex_v2 15", "gpu 5 rc nvmlDeviceGetHandleByIndex_v2 999",
                          "gpu 5 rc nvmlDeviceGetMemoryInfo_v2 15\ngpu 5 rc nvmlDeviceGetMemoryInfo 15"}) {
    NvidiaMachine machine(8);
    machine.config(std::string("gpus 8\n") + how + "\n");
    port::Reading reading = read(machine);
    ASSERT_EQ(reading.gpus.size(), 8u);
    for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(reading.gpus[i].health, i == 5 ? Health::lost : Health::ok) << how << i;
  }
}

TEST(NvidiaBackend, ACrashOnOneGpuCostsOnlyThatGpu) {
  NvidiaMachine machine(4);
  machine.config("gpus 4\ngpu 1 crash nvmlDeviceGetUtilizationRates\n");
  port::Reading reading = read(machine);
  ASSERT_EQ(reading.gpus.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(reading.gpus[i].health, i == 1 ? Health::unreadable : Health::ok) << i;
  EXPECT_THAT(reading.observation.problem, HasSubstr("signal 6"));
}

TEST(NvidiaBackend, WhatTheLibraryPrintsIsNoRecord) {
  NvidiaMachine machine(2);
  machine.config("gpus 2\nnoise\n");
  port::Reading reading = read(machine);
  EXPECT_EQ(reading.observation.problem, "");
  EXPECT_EQ(reading.gpus.size(), 2u);
}

TEST(NvidiaBackend, AnOldLibraryGivesLessAndCallsTheRestUnsupported) {
  NvidiaMachine machine(2);
  machine.config("gpus 2\ngpu 0 process compute 7 1234\ngpu 0 memory 16000 0 1234\n");
  port::Reading reading = read(machine, "minimal");
  EXPECT_EQ(reading.observation.problem, "");
  const model::Gpu& gpu = reading.gpus[0];
  EXPECT_EQ(gpu.health, Health::ok) << gpu.health_reason;
  EXPECT_EQ(*gpu.use.memory_used_mib, 1234u);
  EXPECT_EQ(*gpu.use.temperature_c, 31);
  EXPECT_EQ(gpu.use.power_limit_w.state(), model::Metric<double>::State::unsupported);
  ASSERT_EQ((*gpu.use.processes).size(), 1u);
  EXPECT_EQ(*(*gpu.use.processes)[0].memory_mib, 1234u);
}

TEST(NvidiaBackend, ReadsBothProcessStrides) {
  for (const char* driver :
       {"driver 535.54.03\nstride 32\n", "driver 535.86.05\nstride 24\n", "driver 580.65.06\nstride 24\n"}) {
    NvidiaMachine machine(1);
    machine.config(std::string("gpus 1\n") + driver +
                   "gpu 0 process compute 11 100\ngpu 0 process compute 12 200\ngpu 0 process compute 13 na\n");
    auto processes = *read(machine).gpus.at(0).use.processes;
    ASSERT_EQ(processes.size(), 3u) << driver;
    EXPECT_EQ(processes[1].pid, 12) << driver;
    EXPECT_EQ(*processes[1].memory_mib, 200u) << driver;
    EXPECT_FALSE(processes[2].memory_mib.known()) << driver;
  }
}

TEST(NvidiaBackend, ReadsMoreProcessesThanItGuessed) {
  NvidiaMachine machine(1);
  std::string config = "gpus 1\n";
  for (int pid = 1; pid <= 300; ++pid) config += "gpu 0 process compute " + std::to_string(pid) + " 1\n";
  machine.config(config);
  EXPECT_EQ((*read(machine).gpus.at(0).use.processes).size(), 300u);
}

const char* mig_config =
    "gpus 2\ngpu 1 mig 1\n"
    "gpu 1 instance MIG-aaaa 1 0 3 3 40192 0 3g.40gb\ngpu 1 instance MIG-bbbb 2 0 3 3 40192 9000 3g.40gb\n"
    "gpu 1 process compute 4711 9000 2 0\n";

TEST(NvidiaBackend, MigInstancesAreDevicesOfTheirOwn) {
  NvidiaMachine machine(2);
  machine.config(mig_config);
  const model::Gpu gpu = read(machine).gpus.at(1);
  EXPECT_TRUE(gpu.mig_mode);
  ASSERT_EQ(gpu.mig.size(), 2u);
  EXPECT_EQ(gpu.mig[0].uuid, "MIG-aaaa");
  EXPECT_EQ(gpu.mig[0].profile, "3g.40gb");
  EXPECT_EQ(*gpu.mig[0].use.memory_used_mib, 0u);
  EXPECT_TRUE((*gpu.mig[0].use.processes).empty());
  EXPECT_EQ(gpu.mig[1].instance, (std::array<int, 2>{2, 0}));
  EXPECT_EQ(*gpu.mig[1].use.memory_used_mib, 9000u);
  ASSERT_EQ((*gpu.mig[1].use.processes).size(), 1u);
  EXPECT_EQ((*gpu.mig[1].use.processes)[0].pid, 4711);
}

TEST(NvidiaBackend, MigWithoutPrivilegeIsTheSumOfItsInstances) {
  NvidiaMachine machine(2);
  std::string refused;
  for (const char* function :
       {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3"})
    refused += fmt::format("gpu 1 whole {} 4\n", function);
  machine.config(mig_config + refused);
  const model::Gpu gpu = read(machine).gpus.at(1);
  EXPECT_EQ(gpu.health, Health::ok);
  EXPECT_EQ(*gpu.use.memory_used_mib, 9000u);
  EXPECT_EQ((*gpu.use.processes).size(), 1u);
  ASSERT_EQ(gpu.mig.size(), 2u);
  EXPECT_TRUE((*gpu.mig[0].use.processes).empty());
  EXPECT_EQ((*gpu.mig[1].use.processes).size(), 1u);
}

// Every code that NVML 13 can return, for every metric: what could not be read is never a value.
TEST(NvidiaBackend, ARefusedMetricIsNeverAZero) {
  struct Metric {
    std::vector<std::string> functions;
    std::function<bool(const model::Gpu&)> known;
  };
  const std::vector<Metric> metrics{
      {{"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"},
       [](const model::Gpu& g) { return g.use.memory_used_mib.known(); }},
      {{"nvmlDeviceGetUtilizationRates"}, [](const model::Gpu& g) { return g.use.utilization_percent.known(); }},
      {{"nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"},
       [](const model::Gpu& g) { return g.use.temperature_c.known(); }},
      {{"nvmlDeviceGetPowerUsage"}, [](const model::Gpu& g) { return g.use.power_w.known(); }},
      {{"nvmlDeviceGetEnforcedPowerLimit"}, [](const model::Gpu& g) { return g.use.power_limit_w.known(); }},
      {{"nvmlDeviceGetComputeMode"}, [](const model::Gpu& g) { return g.compute_mode.known(); }},
      {{"nvmlDeviceGetDisplayActive"}, [](const model::Gpu& g) { return g.display.known(); }},
      {{"nvmlDeviceGetDisplayMode"}, [](const model::Gpu& g) { return g.monitor.known(); }},
      {{"nvmlDeviceGetComputeRunningProcesses_v3"}, [](const model::Gpu& g) { return g.use.processes.known(); }},
  };
  NvidiaMachine machine(1);
  machine.file("/sys/bus/pci/devices/" + NvidiaMachine::pci(0) + "/class", "0x030000\n");
  NvidiaBackend backend(machine.options());
  for (const Metric& metric : metrics) {
    for (int rc : {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                   16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 77, 999}) {
      std::string config = "gpus 1\nold_fields\n";        // so that power is asked by functions of its own
      if (rc != 0)
        for (const std::string& function : metric.functions) config += fmt::format("gpu 0 rc {} {}\n", function, rc);
      machine.config(config);
      const port::Reading reading = backend.read(plenty, {port::Purpose::examine, {}});
      ASSERT_EQ(reading.gpus.size(), 1u);
      EXPECT_EQ(metric.known(reading.gpus[0]), rc == 0) << metric.functions[0] << " " << rc;
      EXPECT_EQ(reading.observation.problem, "");
    }
  }
}

TEST(NvidiaBackend, AGpuThatTheLibraryNoLongerListsIsLost) {
  NvidiaMachine machine(3);
  NvidiaBackend backend(machine.options());
  EXPECT_EQ(backend.read(plenty).gpus.at(2).health, Health::ok);
  machine.config("gpus 3\nlisted 2\n");
  port::Reading reading = backend.read(plenty, {port::Purpose::examine, {}});
  ASSERT_EQ(reading.gpus.size(), 3u);
  EXPECT_EQ(reading.gpus[1].health, Health::ok);
  EXPECT_EQ(reading.gpus[2].health, Health::lost);
}

TEST(NvidiaBackend, AGpuWithoutADeviceNodeHereIsNotOurs) {
  NvidiaMachine machine(3);
  std::filesystem::remove(machine.root() + "/dev/nvidia2");
  machine.config("gpus 3\nlisted 2\n");
  EXPECT_EQ(read(machine).gpus.size(), 2u);
}

TEST(NvidiaBackend, NamesProcessesUnlessTheirPidsAreOfAnotherNamespace) {
  NvidiaMachine machine(1);
  machine.config("gpus 1\ngpu 0 process compute 4711 100\n");
  machine.file("/proc/4711/cmdline", std::string("python\0train.py\0", 16));
  port::Reading ours = read(machine);
  EXPECT_FALSE(ours.observation.pids_foreign);
  EXPECT_EQ((*ours.gpus[0].use.processes)[0].command, "python train.py");
  EXPECT_NE((*ours.gpus[0].use.processes)[0].user, "");
  std::filesystem::remove(machine.root() + "/proc/self/ns/pid");
  std::filesystem::create_symlink("pid:[4026532999]", machine.root() + "/proc/self/ns/pid");
  port::Reading foreign = read(machine);
  EXPECT_TRUE(foreign.observation.pids_foreign);
  EXPECT_EQ((*foreign.gpus[0].use.processes)[0].command, "");
}

TEST(NvidiaBackend, WithoutTheKernelModuleListsThePciDevicesAndSaysWhatToDo) {
  NvidiaMachine machine(2);
  std::filesystem::remove_all(machine.root() + "/proc/driver");
  for (int i : {0, 1}) {
    std::string link = machine.root() + "/sys/bus/pci/devices/" + NvidiaMachine::pci(i) + "/driver";
    std::filesystem::create_symlink("../../../bus/pci/drivers/nouveau", link);
  }
  NvidiaBackend backend(machine.options());
  EXPECT_TRUE(backend.present());
  port::Reading reading = backend.read(plenty);
  ASSERT_EQ(reading.gpus.size(), 2u);
  EXPECT_EQ(reading.gpus[0].health, Health::unreadable);
  EXPECT_THAT(reading.gpus[0].health_reason, HasSubstr("nouveau"));
  EXPECT_THAT(reading.observation.problem, HasSubstr("modprobe"));
}

TEST(NvidiaBackend, IsAbsentOnAMachineWithoutNvidia) {
  NvidiaMachine machine(0);
  std::filesystem::remove_all(machine.root() + "/proc/driver");
  EXPECT_FALSE(NvidiaBackend(machine.options()).present());
}

TEST(NvidiaBackend, LinksAreNvlinkWhereTheyEndAtTheOtherAndNvswitchWhereBothReachIt) {
  NvidiaMachine machine(4);
  machine.config(
      "gpus 4\n"
      "gpu 0 link 0 00000000:0F:00.0\ngpu 0 link 1 00000000:0F:00.0\ngpu 1 link 0 00000000:07:00.0\ngpu 1 link 1 "
      "00000000:07:00.0\n"
      "gpu 2 link 0 FFFFFFFF:FF:FF.0\ngpu 3 link 0 FFFFFFFF:FF:FF.0\ngpu 2 nvswitch 18\ngpu 3 nvswitch 18\n");
  const auto gpus = LiveTopology({machine.root(), {}}).around(read(machine).gpus, Millis(0)).gpus;
  auto between = [&](std::size_t a, int b) {
    std::string all;
    for (const model::Link& link : gpus[a].links)
      if (link.to.to_string() == NvidiaMachine::pci(b))
        all += fmt::format("{} {};", model::to_string(link.kind), link.count.value_or(0));
    return all;
  };
  EXPECT_EQ(between(0, 1), "nvlink 2;node 0;");            // beside the connection by PCI
  EXPECT_EQ(between(2, 3), "nvswitch 18;node 0;");
  EXPECT_EQ(between(0, 2), "node 0;");
  EXPECT_EQ(gpus[0].numa, 0);
  EXPECT_EQ(gpus[0].near_cpus.node->to_string(), "0-7");
}

TEST(NvidiaBackend, NearCpusComeFromTheLibraryWhereSysfsNamesNone) {
  NvidiaMachine machine(1);
  std::filesystem::remove(machine.root() + "/sys/bus/pci/devices/" + NvidiaMachine::pci(0) + "/local_cpulist");
  machine.config("gpus 1\ngpu 0 cpus 48 71\n");
  const model::Gpu gpu = read(machine).gpus.at(0);
  EXPECT_EQ(gpu.near_cpus.node->to_string(), "48-71");
  EXPECT_EQ(gpu.near_cpus.package->to_string(), "0-71");
}

TEST(NvidiaBackend, AFatalXidWhileWatchingMakesTheGpuSick) {
  NvidiaMachine machine(2);
  NvidiaBackend backend(machine.options());
  EXPECT_EQ(backend.read(plenty).gpus.at(1).health, Health::ok);
  machine.config("gpus 2\ngpu 0 xid 31\ngpu 1 xid 95\n");
  port::Reading reading = backend.read(plenty);
  // The probe listens once it has answered: the first look after that may come too early for what happened in between.
  for (const SteadyTime begun = std::chrono::steady_clock::now();
       reading.gpus[1].last_xid != 95 && std::chrono::steady_clock::now() - begun < Seconds(60);)
    reading = backend.read(plenty);
  EXPECT_EQ(reading.gpus[0].health, Health::ok);           // an application's fault
  EXPECT_EQ(reading.gpus[0].last_xid, 31);
  EXPECT_EQ(reading.gpus[1].health, Health::reset_required);
  EXPECT_EQ(reading.gpus[1].last_xid, 95);
}

}  // namespace
}  // namespace thole::host
