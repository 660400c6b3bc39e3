// The pure rules: what return codes and numbers of the driver library mean. Inputs are records as the probe sends them.
#include "host/gpu/nvidia/translate.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/text.hpp"
#include "host/gpu/nvidia/health.hpp"
#include "host/gpu/nvidia/merge.hpp"
#include "host/gpu/nvidia/processes.hpp"
#include "model/json.hpp"

namespace thole::host::nvidia {
namespace {

using model::Gpu;
using model::Health;
using testing::HasSubstr;

Gpu gpu_of(const char* use_record) {
  Gpu gpu;
  apply(gpu, parse_line(use_record).use);
  return gpu;
}

TEST(NvidiaTranslate, RecordsSurviveTheWayThroughThePipe) {
  RawUse use;
  use.index = 3;
  use.memory = RawMemory{100, 60, 40, 5, true};
  use.utilization = std::array<std::uint32_t, 2>{12, 34};
  use.temperature_c = Answer<std::int64_t>::refused(abi::no_permission);
  use.compute = std::vector<RawProcess>{{4711, abi::not_available, 1, abi::no_instance}};
  use.instances.push_back({});
  use.instances[0].uuid = std::string("MIG-\n\xff\x1b");
  use.xids = {79};
  std::string line = to_line(use);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  Record back = parse_line(line);
  EXPECT_EQ(back.kind, RecordKind::use);
  EXPECT_EQ(to_line(back.use), line);
  EXPECT_EQ(back.use.compute, use.compute);
  EXPECT_EQ(back.use.temperature_c, use.temperature_c);
  EXPECT_EQ(back.use.power_mw.rc, abi::not_asked);
}

TEST(NvidiaTranslate, LinesThatAreNoRecordsAreCountedNotBelieved) {
  RawReading reading;
  for (const char* line :
       {"", "{", "7", "[]", "{}", "{\"use\":7}", "{\"use\":{\"index\":\"x\"}}", "{\"use\":{\"compute\":[1]}}",
        "{\"identity\":{},\"use\":{}}", "{\"begin\":{}}", "{\"strange\":{}}", "\xff\xfe"})
    reading.add(line);
  EXPECT_EQ(reading.garbage, 12u);
  EXPECT_TRUE(reading.uses.empty());
}

struct MemoryCase {
  const char* what;
  const char* memory;
  std::optional<std::uint64_t> used_mib;
};
TEST(NvidiaTranslate, MemoryInUseLeavesOutTheDriversReserve) {
  for (const MemoryCase& c :
       {MemoryCase{"v2, used counts the reserve",
                   R"({"total":85899345920,"free":73400320000,"used":12499025920,"reserved":1073741824,"v2":true})", 10896},
        MemoryCase{"v2, used does not count it",
                   R"({"total":85899345920,"free":73400320000,"used":11425284096,"reserved":1073741824,"v2":true})", 10896},
        MemoryCase{"v2, idle", R"({"total":85899345920,"free":85274394624,"used":0,"reserved":624951296,"v2":true})", 0},
        MemoryCase{"v2, figures that do not add up", R"({"total":100,"free":90,"used":0,"reserved":90,"v2":true})", 0},
        MemoryCase{"v1", R"({"total":85899345920,"free":0,"used":1048576,"v2":false})", 1},
        MemoryCase{"no memory of its own", R"({"total":0,"free":0,"used":0,"v2":true})", std::nullopt},
        MemoryCase{"refused", R"({"rc":4})", std::nullopt}}) {
    Gpu gpu = gpu_of((std::string(R"({"use":{"index":0,"memory":)") + c.memory + "}}").c_str());
    EXPECT_EQ(gpu.use.memory_used_mib.known(), c.used_mib.has_value()) << c.what;
    EXPECT_EQ(gpu.use.memory_used_mib.value_or(0), c.used_mib.value_or(0)) << c.what;
  }
}

TEST(NvidiaTranslate, AGpuWithoutMemoryOfItsOwnIsNotJudgedByMemory) {
  EXPECT_TRUE(gpu_of(R"({"use":{"index":0,"memory":{"total":0,"free":0,"used":0}}})").coherent);
  EXPECT_TRUE(gpu_of(R"({"use":{"index":0,"memory":{"rc":3}}})").coherent);
  EXPECT_FALSE(gpu_of(R"({"use":{"index":0,"memory":{"rc":4}}})").coherent);
  EXPECT_FALSE(gpu_of(R"({"use":{"index":0,"memory":{"rc":3},"mig_mode":1}})").coherent);
}

TEST(NvidiaTranslate, MetricsTellUnsupportedFromFailedFromNeverAsked) {
  using State = model::Metric<double>::State;
  EXPECT_EQ(gpu_of(R"({"use":{"index":0,"power_mw":56200}})").use.power_w, model::Metric<double>(56.2));
  EXPECT_EQ(gpu_of(R"({"use":{"index":0,"power_mw":{"rc":3}}})").use.power_w.state(), State::unsupported);
  EXPECT_EQ(gpu_of(R"({"use":{"index":0,"power_mw":{"rc":1013}}})").use.power_w.state(), State::unsupported);
  EXPECT_EQ(gpu_of(R"({"use":{"index":0,"power_mw":{"rc":4}}})").use.power_w.state(), State::failed);
  EXPECT_EQ(gpu_of(R"({"use":{"index":0}})").use.power_w.state(), State::unknown);
  EXPECT_EQ(gpu_of(R"({"use":{"index":0,"utilization":[250,0]}})").use.utilization_percent.state(), State::failed);
}

TEST(NvidiaTranslate, TheThreeProcessListsBecomeOneEntryAPid) {
  Gpu gpu = gpu_of(R"({"use":{"index":0,
    "compute":[{"pid":1,"used_memory":104857600},{"pid":2,"used_memory":18446744073709551615},{"pid":3,"used_memory":1048576}],
    "graphics":[{"pid":2,"used_memory":52428800},{"pid":4,"used_memory":1048576}],
    "mps":[{"pid":3,"used_memory":2097152},{"pid":5,"used_memory":1048576},{"pid":0,"used_memory":1}]}})");
  using Kind = model::GpuProcess::Kind;
  auto processes = *gpu.use.processes;
  ASSERT_EQ(processes.size(), 5u);
  auto check = [&](std::size_t i, pid_t pid, Kind kind, std::uint64_t mib) {
    EXPECT_EQ(processes[i].pid, pid);
    EXPECT_EQ(processes[i].kind, kind);
    EXPECT_EQ(*processes[i].memory_mib, mib);
  };
  check(0, 1, Kind::compute, 100);
  check(1, 2, Kind::both, 50);                             // unknown on one list, known on the other
  check(2, 3, Kind::mps, 2);
  check(3, 4, Kind::graphics, 1);
  check(4, 5, Kind::mps, 1);
}

TEST(NvidiaTranslate, WithoutTheComputeListNothingIsSaidAboutProcesses) {
  EXPECT_FALSE(gpu_of(R"({"use":{"index":0,"compute":{"rc":4},"graphics":[]}})").use.processes.known());
  EXPECT_TRUE(gpu_of(R"({"use":{"index":0,"compute":[],"graphics":{"rc":4},"mps":{"rc":1013}}})").use.processes.known());
}

struct HealthCase {
  const char* record;
  Health health;
};
TEST(NvidiaTranslate, HealthFollowsFromTheCodes) {
  for (const HealthCase& c : {HealthCase{R"({"identity":{"index":0,"handle":15}})", Health::lost},
                              HealthCase{R"({"identity":{"index":0,"handle":999}})", Health::lost},
                              HealthCase{R"({"identity":{"index":0,"handle":16}})", Health::reset_required},
                              HealthCase{R"({"identity":{"index":0,"handle":18}})", Health::driver_mismatch},
                              HealthCase{R"({"identity":{"index":0,"handle":4}})", Health::unreadable},
                              HealthCase{R"({"identity":{"index":0,"handle":2}})", Health::unreadable},
                              HealthCase{R"({"identity":{"index":0,"handle":0}})", Health::ok},
                              HealthCase{R"({"use":{"index":0,"memory":{"rc":15}}})", Health::lost},
                              HealthCase{R"({"use":{"index":0,"temperature_c":{"rc":16}}})", Health::reset_required},
                              HealthCase{R"({"use":{"index":0,"temperature_c":{"rc":999}}})", Health::ok},
                              HealthCase{R"({"use":{"index":0,"recovery_action":0}})", Health::ok},
                              HealthCase{R"({"use":{"index":0,"recovery_action":1}})", Health::reset_required},
                              HealthCase{R"({"use":{"index":0,"xids":[13,31,43]}})", Health::ok},
                              HealthCase{R"({"use":{"index":0,"xids":[79]}})", Health::lost},
                              HealthCase{R"({"use":{"index":0,"xids":[48]}})", Health::reset_required}}) {
    Record record = parse_line(c.record);
    Gpu gpu;
    if (record.kind == RecordKind::identity) apply(gpu, record.identity);
    else apply(gpu, record.use);
    EXPECT_EQ(gpu.health, c.health) << c.record;
    EXPECT_EQ(gpu.health_reason.empty(), c.health == Health::ok) << c.record;
  }
}

TEST(NvidiaTranslate, ARecoveryActionIsToldByItsNumberAndNeverAsAnother) {
  const std::map<int, std::string> fixes{{1, "--gpu-reset -i 0000:07:00.0"}, {2, "sudo reboot"}, {3, "peer to peer"},
                                         {4, "when its programs have ended"}, {5, "nvidia-imex"}, {6, "of its bus"},
                                         {7, "whole system"}, {8, "recovery action 8"}};
  for (const auto& [action, fix] : fixes) {
    Gpu gpu;
    gpu.pci = model::PciAddress::parse("0000:07:00.0");
    apply(gpu, parse_line(fmt::format(R"({{"use":{{"index":0,"recovery_action":{}}}}})", action)).use);
    EXPECT_EQ(gpu.health, Health::reset_required) << action;
    EXPECT_THAT(gpu.health_reason, HasSubstr(fix));
    EXPECT_EQ(gpu.health_reason.find("--gpu-reset") != std::string::npos, action == 1 || action == 4) << gpu.health_reason;
  }
}

TEST(NvidiaTranslate, FiguresThatNoGpuHasAreNotKnown) {
  Gpu gpu;
  apply(gpu, parse_line(R"({"use":{"index":0,"temperature_c":4294967295,"power_mw":4294967295,"power_limit_mw":4294967295,)"
                        R"("utilization":[4294967295,0],)"
                        R"("compute":[{"pid":4294967295,"used_memory":1048576,"gi":0,"ci":0}]}})").use);
  for (const auto& figure : {gpu.use.temperature_c, gpu.use.power_w, gpu.use.power_limit_w, gpu.use.utilization_percent}) {
    EXPECT_FALSE(figure.known());
    EXPECT_EQ(figure.why(), "out of range");
  }
  ASSERT_EQ((*gpu.use.processes).size(), 1u);
  EXPECT_EQ((*gpu.use.processes)[0].pid, 0) << "somebody, of an unknown number";
  gpu.uuid = "GPU-0";
  model::Machine machine;
  machine.gpus = {gpu};
  EXPECT_EQ(model::machine_from_json(model::to_json(machine), "itself"), machine) << "what is written of it can be read";
  for (const int celsius : {-1, -2, 201}) {
    apply(gpu, parse_line(fmt::format(R"({{"use":{{"index":0,"temperature_c":{}}}}})", celsius)).use);
    EXPECT_FALSE(gpu.use.temperature_c.known()) << celsius;
  }
}

TEST(NvidiaTranslate, AnUnfinishedFabricMakesAGpuOfItSickAndIsARemarkOtherwise) {
  struct Case { int nvswitch; const char* fabric; bool sick, remark; };
  for (const Case& c : {Case{18, R"({"state":3,"status":0})", false, false}, Case{18, R"({"state":2,"status":0})", true, false},
                        Case{18, R"({"state":1,"status":0})", true, false},
                        Case{18, R"({"state":3,"status":999})", true, false},
                        Case{18, R"({"rc":3})", false, false}, Case{0, R"({"state":2,"status":0})", false, true},
                        Case{18, R"({"state":0,"status":0})", false, false}}) {
    const std::string line = fmt::format(R"({{"identity":{{"index":0,"handle":0,"nvswitch_links":{}}}}})", c.nvswitch);
    const auto identity = parse_line(line).identity;
    const auto use = parse_line(fmt::format(R"({{"use":{{"index":0,"clock_reasons":0,"fabric":{}}}}})", c.fabric)).use;
    Gpu gpu;
    judge_fabric(gpu, identity, use);
    EXPECT_EQ(gpu.health != Health::ok, c.sick) << c.fabric;
    EXPECT_EQ(gpu.health_reason.find("nvidia-fabricmanager") != std::string::npos, c.sick) << gpu.health_reason;
    EXPECT_EQ(remarks(identity, use).size(), c.remark ? 1u : 0u) << c.fabric;
  }
}

TEST(NvidiaTranslate, RowsThatWaitAndClocksHeldDownAreRemarked) {
  const auto said = [](const char* fields) {
    const auto use = parse_line(fmt::format(R"({{"use":{{"index":0,{}}}}})", fields)).use;
    std::string all;
    for (const std::string& remark : remarks(RawIdentity{}, use)) all += remark + "\n";
    return all;
  };
  EXPECT_EQ(said(R"("remap_pending":0,"remap_failed":0,"clock_reasons":5)"), "");  // idle, software power cap: every day
  EXPECT_THAT(said(R"("remap_pending":1,"remap_failed":0,"clock_reasons":0)"), HasSubstr("next reset"));
  EXPECT_THAT(said(R"("remap_pending":0,"remap_failed":1,"clock_reasons":0)"), HasSubstr("no spare ones"));
  for (const char* heat : {"32", "64", "96"})
    EXPECT_THAT(said(fmt::format("\"clock_reasons\":{}", heat).c_str()), HasSubstr("too hot"));
  EXPECT_THAT(said(R"("clock_reasons":128)"), HasSubstr("power brake"));
}

// 4:0 is one and 4:1 two of three slices of one GPU instance, which has one memory.
TEST(NvidiaTranslate, ComputeInstancesShareTheMemoryOfTheirGpuInstance) {
  const auto instance = [](int index, int ci, int slices) {
    return fmt::format(R"({{"index":{},"uuid":"MIG-{}","gi":1,"ci":{},"memory_mib":19968,"gpu_slices":3,"compute_slices":{},)"
                       R"("memory":{{"total":20937965568,"free":18790481920,"used":2147483648,"reserved":0,"v2":true}}}})",
                       index, index, ci, slices);
  };
  const std::string use = fmt::format(R"({{"use":{{"index":0,"mig_mode":1,"instances":[{},{}],)"
                                      R"("compute":[{{"pid":47,"used_memory":2147483648,"gi":1,"ci":1}}],)"
                                      R"("graphics":[],"mps":[]}}}})",
                                      instance(0, 0, 1), instance(1, 1, 2));
  Gpu gpu;
  apply(gpu, parse_line(use).use);
  ASSERT_EQ(gpu.mig.size(), 2u);
  EXPECT_EQ(gpu.mig[0].memory_mib, 6656u);
  EXPECT_EQ(gpu.mig[1].memory_mib, 13312u);
  EXPECT_EQ(*gpu.mig[0].use.memory_used_mib, 0u) << "the neighbour's process is not a stranger's on this one";
  EXPECT_EQ(*gpu.mig[1].use.memory_used_mib, 2048u);
}

TEST(NvidiaTranslate, MigProfilesComeFromTheNameElseFromTheSlices) {
  auto profile = [](const std::string& instance) {
    return gpu_of((R"({"use":{"index":0,"mig_mode":1,"instances":[{"uuid":"MIG-1",)" + instance + "}]}}").c_str())
        .mig.at(0)
        .profile;
  };
  EXPECT_EQ(profile(R"("name":"NVIDIA H100 80GB HBM3 MIG 1g.10gb+me")"), "1g.10gb+me");
  // Sizes of go-nvml's A100 profiles.
  EXPECT_EQ(profile(R"("name":"NVIDIA A100","gpu_slices":1,"compute_slices":1,"memory_mib":4864)"), "1g.5gb");
  EXPECT_EQ(profile(R"("name":"NVIDIA A100","gpu_slices":3,"compute_slices":3,"memory_mib":20096)"), "3g.20gb");
  EXPECT_EQ(profile(R"("gpu_slices":3,"compute_slices":1,"memory_mib":20096)"), "1c.3g.20gb");
  EXPECT_EQ(profile(R"("name":{"rc":4})"), "");
}

TEST(NvidiaTranslate, NvlinkPairs) {
  auto kinds = [](std::initializer_list<const char*> identities) {
    RawReading reading;
    for (const char* identity : identities) reading.add(identity);
    EXPECT_EQ(reading.garbage, 0u);
    auto links = nvlinks(reading.identities);
    return links[0].empty() ? std::string("none")
                            : fmt::format("{} {}", model::to_string(links[0][0].kind), links[0][0].count.value_or(0));
  };
  const char* far = R"({"identity":{"index":1,"handle":0,"pci":"00000000:0F:00.0"}})";
  const char* far_on_switch = R"({"identity":{"index":1,"handle":0,"pci":"00000000:0F:00.0","nvswitch_links":12}})";
  EXPECT_EQ(
      kinds({R"({"identity":{"index":0,"handle":0,"pci":"0000:07:00.0","links":[{"link":0,"remote":"00000000:0f:00.0"}]}})",
             far}),
      "nvlink 1");
  EXPECT_EQ(kinds({R"({"identity":{"index":0,"handle":0,"pci":"0000:07:00.0","nvswitch_links":18}})", far_on_switch}),
            "nvswitch 12");
  EXPECT_EQ(kinds({R"({"identity":{"index":0,"handle":0,"pci":"0000:07:00.0","nvswitch_links":18}})", far}), "none");
  EXPECT_EQ(kinds({R"({"identity":{"index":0,"handle":0,"pci":"0000:07:00.0","peers":[{"gpu":1,"rc":0,"status":0}]}})", far}),
            "nvlink 0");
  EXPECT_EQ(kinds({R"({"identity":{"index":0,"handle":0,"pci":"0000:07:00.0","peers":[{"gpu":1,"rc":0,"status":5}]}})", far}),
            "none");
  // Joined to a third GPU only: peer access that works goes another way.
  EXPECT_EQ(
      kinds(
          {R"({"identity":{"index":0,"handle":0,"pci":"0000:07:00.0",)"
           R"("links":[{"link":0,"remote":"00000000:1f:00.0","remote_type":0}],
                       "peers":[{"gpu":1,"rc":0,"status":0}]}})",
           far}),
      "none");
}

TEST(NvidiaProcesses, StrideFollowsGenerationAndDriver) {
  struct Case { int generation; const char* driver; std::size_t stride; };
  for (const Case& c : {Case{1, "580.65.06", 16}, Case{2, "580.65.06", 24}, Case{3, "580.65.06", 24}, Case{3, "535.42.01", 24},
                        Case{3, "535.43.02", 32}, Case{3, "535.85.12", 32}, Case{3, "535.86.05", 24}, Case{2, "535.54.03", 24},
                        Case{3, "", 24}, Case{3, "535", 24}, Case{3, "x.y", 24}})
    EXPECT_EQ(process_stride(c.generation, c.driver), c.stride) << c.generation << " " << c.driver;
}

TEST(NvidiaProcesses, AWrongGuessOfTheStrideIsSeenByImpossiblePids) {
  std::vector<std::byte> wide(4 * 32, std::byte{0xA5});
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::uint32_t pid = 100 + i;
    std::memcpy(wide.data() + i * 32, &pid, 4);
  }
  auto list = decode_processes(wide, 4, 24);
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(list[3].pid, 103u);
}

TEST(NvidiaProcesses, NeverReadsBehindTheBuffer) {
  std::vector<std::byte> buffer(50);
  EXPECT_EQ(decode_processes(buffer, 1000, 24).size(), 2u);
  EXPECT_EQ(decode_processes({}, 1000, 16).size(), 0u);
}

TEST(NvidiaMerge, AProbeThatCouldNotRunLeavesUnreadableGpusWithTheReason) {
  Observed observed;
  observed.files.loaded = true;
  observed.files.gpus.emplace_back().pci = *model::PciAddress::parse("0000:07:00.0");
  observed.outcome = {ProbeOutcome::End::not_started, "no program to run the probe with", {}};
  port::Reading reading = merge(observed);
  ASSERT_EQ(reading.gpus.size(), 1u);
  EXPECT_EQ(reading.gpus[0].health, Health::unreadable);
  EXPECT_NE(reading.observation.problem, "");
  EXPECT_FALSE(reading.observation.answered);
}

// Two GPUs by the files; the library lists the first, and opening the other's device node says `open_errno`.
port::Reading reading_with_unlisted(int open_errno) {
  Observed observed;
  observed.files.loaded = true;
  for (const char* pci : {"0000:07:00.0", "0000:0f:00.0"})
    observed.files.gpus.emplace_back().pci = *model::PciAddress::parse(pci);
  observed.nvml.add(R"({"driver":{"init":0,"count":1,"driver":"580.65.06"}})");
  observed.nvml.add(R"({"identity":{"index":0,"handle":0,"pci":"00000000:07:00.0"}})");
  observed.nvml.add(R"({"use":{"index":0,"compute":[]}})");
  observed.nvml.add(to_line(RawUnlisted{"0000:0f:00.0", open_errno}));
  return merge(observed);
}

TEST(NvidiaMerge, AGpuKeptFromUsIsLeftOutAndOneThatFellOffIsLost) {
  EXPECT_EQ(reading_with_unlisted(EPERM).gpus.size(), 1u);   // a device cgroup
  EXPECT_EQ(reading_with_unlisted(ENOENT).gpus.size(), 1u);  // a container without the node
  for (auto [open_errno, health] :
       {std::pair{EACCES, Health::unreadable}, {0, Health::lost}, {EIO, Health::lost}, {ENODEV, Health::lost}}) {
    port::Reading reading = reading_with_unlisted(open_errno);
    ASSERT_EQ(reading.gpus.size(), 2u) << open_errno;
    EXPECT_EQ(reading.gpus[0].health, Health::ok);
    EXPECT_EQ(reading.gpus[1].health, health) << open_errno;
  }
}

}  // namespace
}  // namespace thole::host::nvidia
