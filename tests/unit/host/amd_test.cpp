#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "host/drm/device.hpp"
#include "host/gpu/amd/backend.hpp"
#include "host/gpu/amd/identity.hpp"
#include "host/gpu/amd/use.hpp"
#include "topologies/captured.hpp"

namespace thole::host {
namespace {

using model::Gpu;
using model::GpuProcess;
using model::LinkKind;
constexpr auto unsupported = model::Metric<std::uint64_t>::State::unsupported;

// A root whose KFD topology is a captured one.
class Kfd : public test::MadeUpTree {
 public:
  explicit Kfd(const std::string& capture) {
    folder("sys/class/kfd/kfd");
    auto captured = test::captured_tree("kfd/k8s-device-plugin.tar.gz") / capture;
    std::filesystem::create_directory_symlink(captured, root() + "/sys/class/kfd/kfd/topology");
  }
  std::vector<Gpu> gpus() { return AmdBackend({root()}).read(Millis(1000)).gpus; }
};

// One made-up GPU with everything: an RX 7900-like card at 03:00.0, KFD id 4242, render node 128.
class OneGpu : public ::testing::Test {
 protected:
  OneGpu() {
    node("1", "simd_count 192\nlocation_id 768\ndomain 0\nunique_id 81985529216486895\ndevice_id 29772\n"
              "drm_render_minor 128\n");
    device = tree.pci("pci0000:00/0000:00:01.0", "0000:03:00.0", "0x1002", "0x744c", "0x030000");
    tree.file(device + "/mem_info_vram_total", "25753026560\n");
    tree.file(device + "/mem_info_vram_used", "5368709120\n");
    tree.file(device + "/gpu_busy_percent", "97\n");
    tree.file(device + "/mem_busy_percent", "40\n");
    tree.file(device + "/hwmon/hwmon3/temp1_input", "61000\n");
    tree.file(device + "/hwmon/hwmon3/power1_average", "301000000\n");
    tree.file(device + "/hwmon/hwmon3/power1_cap", "327000000\n");
    tree.file("sys/class/kfd/kfd/proc/4711/vram_4242", "4294967296\n");
    tree.file("proc/4711/cmdline", std::string("python train.py"));
  }

  void node(const std::string& number, const std::string& properties) {
    const std::string at = "sys/class/kfd/kfd/topology/nodes/" + number;
    tree.file(at + "/properties", properties);
    tree.file(at + "/gpu_id", "4242\n");
  }
  Gpu read() {
    auto reading = AmdBackend({tree.root()}).read(Millis(1000));
    EXPECT_EQ(reading.gpus.size(), 1u);
    return reading.gpus.at(0);
  }

  test::MadeUpTree tree;
  std::string device;
};

TEST_F(OneGpu, IsReadFromFiles) {
  Gpu gpu = read();
  EXPECT_EQ(gpu.uuid, "GPU-0123456789abcdef");  // as ROCm's runtime prints it
  EXPECT_EQ(gpu.key(), gpu.uuid);
  EXPECT_EQ(gpu.pci->to_string(), "0000:03:00.0");
  EXPECT_EQ(gpu.minor, 128);
  EXPECT_EQ(gpu.memory_mib, 24560u);
  EXPECT_EQ(gpu.model, "AMD GPU [1002:744c]");
  EXPECT_EQ(gpu.health, model::Health::ok);
  EXPECT_EQ(gpu.cuda_index, std::nullopt);
  EXPECT_EQ(gpu.use.utilization_percent, 97.0);
  EXPECT_EQ(gpu.use.memory_utilization_percent, 40.0);
  EXPECT_EQ(gpu.use.temperature_c, 61.0);
  EXPECT_EQ(gpu.use.power_w, 301.0);
  EXPECT_EQ(gpu.use.power_limit_w, 327.0);
  EXPECT_EQ(gpu.use.memory_used_mib, 5120u - 24560u / 512);  // without the driver's own
  ASSERT_TRUE(gpu.use.processes);
  ASSERT_EQ((*gpu.use.processes).size(), 1u);
  const GpuProcess& process = (*gpu.use.processes)[0];
  EXPECT_EQ(process.pid, 4711);
  EXPECT_NE(process.user, "");  // whoever runs this test owns the folder
  EXPECT_EQ(process.command, "python train.py");
  EXPECT_EQ(process.memory_mib, 4096u);
  EXPECT_EQ(process.kind, GpuProcess::Kind::compute);
}

TEST_F(OneGpu, NameComesFromTheDriverThenFromLibdrm) {
  tree.file("usr/share/libdrm/amdgpu.ids", "# comment\n1.0.0\n744C,\tC8,\tAMD Radeon RX 7900 XTX\n"
                                            "744C,\tCC,\tAMD Radeon RX 7900 XT\n");
  tree.file(device + "/revision", "0xcc\n");
  EXPECT_EQ(read().model, "AMD Radeon RX 7900 XT");
  tree.file(device + "/product_name", "Radeon PRO W7900\n");
  EXPECT_EQ(read().model, "Radeon PRO W7900");
}

TEST_F(OneGpu, ProcessThatOnlyHasTheDriverOpenDoesNotUseTheGpu) {
  tree.file("sys/class/kfd/kfd/proc/5000/vram_4242", "0\n");          // opened /dev/kfd, uses another GPU
  tree.file("sys/class/kfd/kfd/proc/5000/vram_99", "1048576\n");
  tree.file("sys/class/kfd/kfd/proc/5001/vram_4242", "0\n");          // has a queue here
  tree.file("sys/class/kfd/kfd/proc/5001/queues/0/gpuid", "4242\n");
  std::vector<pid_t> pids;
  Gpu gpu = read();
  for (const auto& process : *gpu.use.processes) pids.push_back(process.pid);
  EXPECT_EQ(pids, (std::vector<pid_t>{4711, 5001}));
}

TEST_F(OneGpu, GraphicsProcessesAreFoundThroughDrm) {
  tree.file("proc/77/fdinfo/9", "drm-driver:\tamdgpu\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t5\n"
                                "drm-memory-vram:\t204800 KiB\ndrm-engine-gfx:\t12 ns\n");
  tree.folder("proc/77/fd");
  std::filesystem::create_symlink("/dev/dri/renderD128", tree.root() + "/proc/77/fd/9");
  auto processes = *read().use.processes;
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_EQ(processes[1].pid, 77);
  EXPECT_EQ(processes[1].kind, GpuProcess::Kind::graphics);
  EXPECT_EQ(processes[1].memory_mib, 200u);
}

TEST_F(OneGpu, AsleepIsIdleAndItsSensorsAreNotRead) {
  tree.file(device + "/power/runtime_status", "suspended\n");
  Gpu gpu = read();
  EXPECT_EQ(gpu.use.utilization_percent, 0.0);
  EXPECT_FALSE(gpu.use.temperature_c);
}

TEST_F(OneGpu, OffTheBusIsLost) {
  tree.file(device + "/config", std::string(64, '\xff'));
  Gpu gpu = read();
  EXPECT_EQ(gpu.health, model::Health::lost);
  EXPECT_NE(gpu.health_reason, "");
  EXPECT_FALSE(gpu.use.utilization_percent);
}

TEST_F(OneGpu, WithoutItsDeviceNodeIsUnreadable) {
  tree.folder("dev/dri");
  tree.file("dev/kfd", "");
  Gpu gpu = read();  // /dev/dri/renderD128 is missing, as in a container
  EXPECT_EQ(gpu.health, model::Health::unreadable);
  EXPECT_NE(gpu.health_reason.find("--device /dev/dri/renderD128"), std::string::npos) << gpu.health_reason;
  tree.file("dev/dri/renderD128", "");
  EXPECT_EQ(read().health, model::Health::ok);
}

TEST_F(OneGpu, WithoutPermissionTheGroupIsNamed) {
  tree.file("dev/kfd", "");
  std::filesystem::permissions(tree.root() + "/dev/kfd", std::filesystem::perms::none);
  std::filesystem::permissions(tree.root(), std::filesystem::perms::all);
  auto as_nobody = [&] {  // root may open everything, so it has to be somebody else
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(2);
    ::_exit(access_problem(Tree(tree.root()), "/dev/kfd").find("usermod -aG render") != std::string::npos ? 0 : 1);
  };
  EXPECT_EXIT(as_nobody(), ::testing::ExitedWithCode(0), "");
}

TEST_F(OneGpu, BuiltIntoTheCpuIsLeftOutButCountsInRocmsOrder) {
  node("0", "simd_count 4\nlocation_id 10240\ngfx_target_version 100306\ndrm_render_minor 129\n");
  Gpu gpu = read();
  EXPECT_EQ(gpu.pci->to_string(), "0000:03:00.0");
  EXPECT_EQ(gpu.cuda_index, 1);
}

TEST_F(OneGpu, ComesAndGoesWithTheGenerationOfTheTopology) {
  tree.file("sys/class/kfd/kfd/topology/generation_id", "1\n");
  AmdBackend backend({tree.root()});
  EXPECT_EQ(backend.read(Millis(1000)).gpus.size(), 1u);
  node("2", "simd_count 192\nlocation_id 1024\ndomain 0\nunique_id 7\ndrm_render_minor 129\n");
  tree.file("sys/class/kfd/kfd/topology/generation_id", "2\n");
  EXPECT_EQ(backend.read(Millis(1000)).gpus.size(), 2u);
}

TEST(Amd, CapturedMi210NodeHasTwoXgmiGroupsOfFour) {
  auto gpus = Kfd("topo-mi210-xgmi-pcie").gpus();
  ASSERT_EQ(gpus.size(), 8u);
  std::set<std::string> uuids;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    const Gpu& gpu = gpus[i];
    EXPECT_EQ(gpu.model, "AMD Instinct MI210");
    EXPECT_TRUE(uuids.insert(gpu.uuid).second);
    EXPECT_EQ(gpu.part, std::nullopt);
    EXPECT_TRUE(i == 0 || gpus[i - 1].pci < gpu.pci);
    std::size_t xgmi = 0;
    for (const model::Link& link : gpu.links) {
      EXPECT_EQ(link.kind, LinkKind::xgmi);
      EXPECT_EQ(link.count, 1);
      EXPECT_EQ(link.weight, 15);
      ++xgmi;
    }
    EXPECT_EQ(xgmi, 3u);
  }
  EXPECT_EQ(gpus[0].pci->to_string(), "0000:03:00.0");
  EXPECT_EQ(gpus[0].uuid.size(), 20u);  // "GPU-" and 16 digits
}

TEST(Amd, RocmsOrderIsKfdsWhereThatIsNotPciOrder) {
  auto gpus = Kfd("topo-mi210-xgmi-pcie").gpus();
  // Nodes 2, 3, 4, 5, … are at 63:00.0, 43:00.0, …: summary in the capture. ROCm's GPU 0 is node 2.
  for (const Gpu& gpu : gpus)
    if (gpu.pci->to_string() == "0000:63:00.0") {
      EXPECT_EQ(gpu.cuda_index, 0);
    }
  std::set<int> indices;
  for (std::size_t i = 0; i < gpus.size(); ++i) indices.insert(gpus[i].cuda_index.value_or(static_cast<int>(i)));
  EXPECT_EQ(indices.size(), 8u);
  EXPECT_EQ(*indices.rbegin(), 7);
}

struct Partitioned {
  const char* capture;
  std::size_t functions, parts, all;
};
class AmdPartitions : public ::testing::TestWithParam<Partitioned> {};
INSTANTIATE_TEST_SUITE_P(Captured, AmdPartitions,
                         ::testing::Values(Partitioned{"topo-mi300-cpx/topology", 8, 8, 63},  // the capture lacks a node
                                           Partitioned{"topology-parsing-mi308/topology", 8, 4, 32}));

TEST_P(AmdPartitions, AreGpusOfTheirOwnThatShareAPciFunction) {
  const Partitioned& expected = GetParam();
  auto gpus = Kfd(expected.capture).gpus();
  EXPECT_EQ(gpus.size(), expected.all);
  std::map<std::string, std::set<int>> parts;
  std::set<std::string> keys;
  for (const Gpu& gpu : gpus) {
    EXPECT_TRUE(gpu.part);
    EXPECT_EQ(gpu.pci->function, 0);
    EXPECT_EQ(gpu.uuid, "");  // all partitions of a GPU have one: it names none of them
    parts[gpu.pci->to_string()].insert(gpu.part.value_or(-1));
    EXPECT_TRUE(keys.insert(gpu.key()).second) << gpu.key();
    std::set<model::PciAddress> linked;
    for (const model::Link& link : gpu.links) {
      EXPECT_NE(link.to, *gpu.pci);
      EXPECT_TRUE(linked.insert(link.to).second) << "twice: " << link.to.to_string();
    }
    EXPECT_EQ(linked.size(), expected.functions - 1);
  }
  EXPECT_EQ(parts.size(), expected.functions);
  for (const auto& [function, numbers] : parts) EXPECT_LE(numbers.size(), expected.parts);
}

// The bank counter of every partition is its card's: 286 MiB of reserve on an idle one, 2773 MiB on the first, four times each.
TEST(Amd, APartitionIsNotUsedByWhatItsNeighboursHold) {
  Kfd machine("topology-parsing-mi308/topology");
  for (const Gpu& gpu : machine.gpus()) EXPECT_FALSE(gpu.use.memory_used_mib.known()) << "nobody tells whose it is";
  machine.folder("sys/class/kfd/kfd/proc");
  const auto first_is = [&](std::uint64_t own, std::uint64_t neighbours) {
    for (const Gpu& gpu : machine.gpus()) {
      const bool first_card = gpu.pci->to_string() == "0000:0a:00.0", idle_card = gpu.pci->to_string() == "0000:80:00.0";
      if (!first_card && !idle_card) continue;
      EXPECT_EQ(gpu.use.memory_used_mib, idle_card ? 0u : gpu.part == 0 ? own : neighbours) << *gpu.part;
    }
  };
  first_is(2774 - 383, 2774 - 383);                        // in use, by nobody who can be seen: it may be any of them
  const auto id = Tree(machine.root()).number("/sys/class/kfd/kfd/topology/nodes/2/gpu_id");
  ASSERT_TRUE(id);
  machine.file("sys/class/kfd/kfd/proc/4711/vram_" + std::to_string(*id), std::to_string(2600ull << 20) + "\n");
  first_is(2600, 0);
}

TEST(Amd, CapturesWithoutDrmHaveNoMetricsRatherThanZeros) {
  for (const char* capture : {"topo-mi210-xgmi-pcie", "topo-mi300-cpx/topology", "topology-parsing/topology"})
    for (const Gpu& gpu : Kfd(capture).gpus()) {
      EXPECT_EQ(gpu.use.memory_used_mib.state(), unsupported);
      EXPECT_FALSE(gpu.use.utilization_percent.known());
      EXPECT_FALSE(gpu.use.temperature_c.known());
      EXPECT_FALSE(gpu.use.power_w.known());
      EXPECT_FALSE(gpu.use.processes.known());
      EXPECT_FALSE(gpu.display.known());
    }
}

TEST(Amd, OlderTopologyWithoutDomainOrBanksStillGivesMemoryAndUuid) {
  auto gpus = Kfd("topology-parsing/topology").gpus();
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].memory_mib, 17163091968u >> 20);
  EXPECT_NE(gpus[0].uuid, gpus[1].uuid);
}

TEST(Amd, NothingThereIsNotPresent) {
  test::MadeUpTree tree;
  EXPECT_FALSE(AmdBackend({tree.root()}).present());
  EXPECT_TRUE(AmdBackend({tree.root()}).read(Millis(10)).gpus.empty());
  tree.folder("sys/module/amdgpu");
  AmdBackend without_kfd({tree.root()});
  EXPECT_TRUE(without_kfd.present());
  EXPECT_NE(without_kfd.read(Millis(10)).observation.problem, "");
}

TEST(Amd, MemoryOfTheDriverIsNotThatOfPrograms) {
  using amd::memory_of_programs_mib;
  EXPECT_EQ(memory_of_programs_mib(283, 196'592, 0), 0u);       // an idle MI300X
  EXPECT_EQ(memory_of_programs_mib(10'000, 65'520, 0), 10'000u - 127u);
  EXPECT_EQ(memory_of_programs_mib(100, 65'520, 90), 90u);      // what a process is known to hold is in use
}

}  // namespace
}  // namespace thole::host
