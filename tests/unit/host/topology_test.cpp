// The live machine and captured trees, read with hwloc through the probe.
#include "host/topology/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <set>

#include "base/text.hpp"
#include "host/topology/live.hpp"
#include "host/topology/reader.hpp"
#include "test_folders.hpp"
#include "topologies/captured.hpp"

namespace thole::host {
namespace {

const std::string reader_program = THOLE_BINARY_DIR "/fake/fake_probe";
constexpr Millis patience{20'000};

std::string captured_machine(const std::string& name) {
  return test::captured_tree("hwloc/" + name + ".tar.gz").string() + "/" + name;
}

Topology read(const std::string& root) { return TopologyReader({reader_program, "", ""}).read_machine(root, patience); }

std::size_t different(const std::vector<model::Cpu>& cpus, std::optional<int> model::Cpu::*member) {
  std::set<int> values;
  for (const model::Cpu& cpu : cpus)
    if (cpu.*member) values.insert(*(cpu.*member));
  return values.size();
}

// What hwloc's own tests expect of these machines: numbers from the .console or .xml file beside each archive in its
// tests/hwloc/linux; where those obey a captured cpuset (we do not: that is the outer allotment), from sysfs by hand.
struct Captured {
  const char* name;
  std::size_t pus, cores, l3, packages, nodes;
  friend std::ostream& operator<<(std::ostream& out, const Captured& c) { return out << c.name; }
};
class Machines : public ::testing::TestWithParam<Captured> {};
INSTANTIATE_TEST_SUITE_P(Hwloc, Machines,
                         ::testing::Values(Captured{"16amd64-8n2c-cpusets", 15, 15, 0, 8, 8},      // by hand: cpu4 is offline
                                           Captured{"16em64t-4s2c2t-offlines", 12, 7, 4, 4, 1},    // .console
                                           Captured{"32amd64-4s2n4c-cgroup", 32, 32, 8, 4, 8},     // by hand
                                           Captured{"40intel64-2g2n4c+pci", 40, 40, 4, 4, 4},      // .xml
                                           Captured{"fakepcilocalities", 40, 40, 0, 4, 4},         // .xml
                                           Captured{"nvidia-dgx-gb10", 20, 20, 2, 1, 1},           // .xml
                                           Captured{"nvidiagpunumanodes", 32, 8, 4, 2, 2},         // .console
                                           Captured{"offline-cpu0-node0", 17, 17, 2, 2, 1}));      // .console

TEST_P(Machines, HaveTheCountsThatHwlocsOwnTestsExpect) {
  const Captured& expected = GetParam();
  const Topology topology = read(captured_machine(expected.name));
  EXPECT_EQ(topology.problem, "");
  EXPECT_EQ(topology.cpus.size(), expected.pus);
  EXPECT_EQ(different(topology.cpus, &model::Cpu::core), expected.cores);
  EXPECT_EQ(different(topology.cpus, &model::Cpu::l3), expected.l3);
  EXPECT_EQ(different(topology.cpus, &model::Cpu::package), expected.packages);
  EXPECT_EQ(topology.numa.size(), expected.nodes);
}

TEST_P(Machines, NumberGroupsByTheirLowestPu) {
  const auto cpus = read(captured_machine(GetParam().name)).cpus;
  for (auto member : {&model::Cpu::core, &model::Cpu::l3, &model::Cpu::package}) {
    int next = 0;
    for (const model::Cpu& cpu : cpus) {
      if ((cpu.*member).value_or(-1) >= next) {
        EXPECT_EQ(*(cpu.*member), next++) << "PU " << cpu.id;
      }
    }
  }
}

TEST_P(Machines, AreTheSameAfterTheTextForm) {
  const Topology topology = read(captured_machine(GetParam().name));
  EXPECT_EQ(topology_from_text(to_text(topology)), topology);
}

TEST(Topology, KnownToBeNearNoCpuIsNotUnknownAfterTheTextForm) {
  Topology topology;
  for (std::uint8_t bus = 1; bus <= 2; ++bus) {
    PciDevice device;
    device.address = {0, bus, 0, 0};
    if (bus == 1) device.local_cpus = model::CpuSet();
    topology.devices.emplace(device.address, device);
  }
  EXPECT_EQ(topology_from_text(to_text(topology)), topology);
}

TEST(Topology, OfflinePusAreNotThere) {
  const auto cpus = read(captured_machine("offline-cpu0-node0")).cpus;
  ASSERT_EQ(cpus.size(), 17u);
  EXPECT_EQ(cpus.front().id, 4u);
  EXPECT_EQ(cpus.back().id, 20u);
  for (const model::Cpu& cpu : cpus)  // node 0 is offline: its PUs have no node, the others node 1
    EXPECT_EQ(cpu.numa, cpu.id % 2 ? std::optional(1) : std::nullopt) << cpu.id;
}

TEST(Topology, PusOfOneCoreShareItsNumber) {
  const auto cpus = read(captured_machine("nvidiagpunumanodes")).cpus;
  ASSERT_EQ(cpus.size(), 32u);  // SMT-4; two cores share a level-3 cache
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    EXPECT_EQ(cpus[i].core, static_cast<int>(i / 4));
    EXPECT_EQ(cpus[i].l3, static_cast<int>(i / 8));
    EXPECT_EQ(cpus[i].package, static_cast<int>(i / 16));
    EXPECT_EQ(cpus[i].numa, i < 16 ? 0 : 8);
  }
}

TEST(Topology, MemoryOfGpusIsNoNodeForPrograms) {
  const auto nodes = read(captured_machine("nvidiagpunumanodes")).numa;
  ASSERT_EQ(nodes.size(), 2u);  // 250 to 255 are V100 memory, named in /proc/driver/nvidia/gpus/*/numa_status
  EXPECT_EQ(nodes[0].id, 0);
  EXPECT_EQ(nodes[0].memory_mib, 129839104u / 1024);
  EXPECT_EQ(nodes[1].id, 8);
}

TEST(Topology, WithoutTheKernelsFilesNoCpusAreMadeUp) {
  test::MadeUpTree tree;
  const Topology topology = read(tree.root());
  EXPECT_TRUE(topology.cpus.empty());
  EXPECT_THAT(topology.problem, testing::HasSubstr("/sys/devices/system/cpu"));
  EXPECT_TRUE(topology.nics.empty());
}

// hwloc would describe only what is allowed, unless asked for the whole; and its variables could make it describe another
// machine.
TEST(Topology, OfThisMachineIsWholeWhateverWeAreBoundToAndHoweverHwlocIsSteered) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) {
      CPU_SET(cpu, &one);
      break;
    }
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  ::setenv("HWLOC_SYNTHETIC", "package:3 core:5 pu:1", 1);
  const Topology topology = read("");
  ::unsetenv("HWLOC_SYNTHETIC");
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(topology.problem, "");
  EXPECT_EQ(static_cast<long>(topology.cpus.size()), ::sysconf(_SC_NPROCESSORS_ONLN));
}

// The node of Frontier: 64 cores, 8 caches, 4 memory nodes; the kernel names the 16 cores of a memory node as near.
class CrayEx235a : public ::testing::Test {
 protected:
  CrayEx235a() {
    tree.file("sys/devices/system/cpu/online", "0-63\n");
    tree.file("sys/devices/system/node/online", "0-3\n");
    for (unsigned cpu = 0; cpu < 64; ++cpu) {
      const std::string directory = "sys/devices/system/cpu/cpu" + std::to_string(cpu);
      tree.file(directory + "/topology/physical_package_id", "0\n");
      tree.file(directory + "/topology/core_id", std::to_string(cpu) + "\n");
      tree.file(directory + "/topology/core_siblings", mask(0, 63) + "\n");
      tree.file(directory + "/topology/thread_siblings", mask(cpu, cpu) + "\n");
      const std::string cache = directory + "/cache/index3/";
      tree.file(cache + "level", "3\n");
      tree.file(cache + "type", "Unified\n");
      tree.file(cache + "size", "32768K\n");
      tree.file(cache + "shared_cpu_map", mask(cpu / 8 * 8, cpu / 8 * 8 + 7) + "\n");
    }
    for (unsigned node = 0; node < 4; ++node) {
      const std::string directory = "sys/devices/system/node/node" + std::to_string(node);
      tree.file(directory + "/cpumap", mask(16 * node, 16 * node + 15) + "\n");
      tree.file(directory + "/meminfo", "Node " + std::to_string(node) + " MemTotal: 131072000 kB\n");
    }
    tree.pci("pci0000:d0", "0000:d1:00.0", "0x1002", "0x7408", "0x038000", "0", "0-15");
    tree.file("sys/devices/pci0000:d0/0000:d1:00.0/local_cpus", mask(0, 15) + "\n");
  }

  static std::string mask(unsigned first, unsigned last) {
    std::uint64_t bits = 0;
    for (unsigned cpu = first; cpu <= last; ++cpu) bits |= std::uint64_t{1} << cpu;
    return fmt::format("{:08x},{:08x}", bits >> 32, bits & 0xffffffff);
  }
  std::optional<model::CpuSet> near() {
    return read(tree.root()).devices.at(*model::PciAddress::parse("0000:d1:00.0")).local_cpus;
  }

  test::MadeUpTree tree;
};

TEST_F(CrayEx235a, GpusAreNearTheCacheThatHwlocKnows) {
  EXPECT_EQ(near(), model::CpuSet::parse("0-15"));                 // any other board: what the kernel says
  tree.file("sys/class/dmi/id/board_name", "HPE CRAY EX235A\n");
  // as in the export of such a machine, mpibind's eas-tioga.xml
  EXPECT_EQ(near(), model::CpuSet::parse("0-7"));
}

TEST_F(CrayEx235a, WhatNobodyPlacesIsNearNoCpusRatherThanAll) {
  std::filesystem::remove(tree.root() + "/sys/devices/pci0000:d0/0000:d1:00.0/local_cpulist");
  std::filesystem::remove(tree.root() + "/sys/devices/pci0000:d0/0000:d1:00.0/local_cpus");
  EXPECT_EQ(near(), std::nullopt);
}

TEST(Topology, WithoutTheLibraryOnlyTheCpusAreUnknown) {
  const std::string root = captured_machine("40intel64-2g2n4c+pci");
  const Topology whole = read(root),
                 without = TopologyReader({reader_program, "", "/nonexistent/libhwloc.so.15"}).read_machine(root, patience);
  EXPECT_TRUE(without.cpus.empty());
  EXPECT_THAT(without.problem, testing::HasSubstr("apt-get install libhwloc15"));
  EXPECT_EQ(without.nics, whole.nics);
  EXPECT_EQ(without.devices, whole.devices);
}

TEST(Topology, ALibraryThatIsNotHwlocIsRefusedByName) {
  const Topology topology =
      TopologyReader({reader_program, "", THOLE_BINARY_DIR "/fake/stub/libnvidia-ml.so.1"}).read_machine("", patience);
  EXPECT_THAT(topology.problem, testing::HasSubstr("has no hwloc_"));
}

TEST(Topology, WithoutAProgramToProbeWithTheCpusAreUnknown) {
  const Topology topology = TopologyReader({"", "", ""}).read_machine("", patience);
  EXPECT_TRUE(topology.cpus.empty());
  EXPECT_THAT(topology.problem, testing::HasSubstr("nothing is bound"));
}

TEST(TopologyText, AnythingOutOfPlaceIsRefused) {
  const std::string good = "cpu 0 0 0 0 0\ncpu 1 - - - -\nnode 0 1024\nnode 1 -\nnic eth0 0000:01:00.0 0 100\nnic ib0 - - 2.5\n"
                           "device 0000:01:00.0 10de 2330 30200 0 0-1 pci0000:00 0000:00:01.0+0000:00:02.0 1 0\n"
                           "device 0000:02:00.0 - - - - - - - 0 1\nproblem none really\n";
  const auto topology = topology_from_text(good);
  ASSERT_TRUE(topology);
  EXPECT_EQ(topology->cpus.size(), 2u);
  EXPECT_EQ(topology->nics[1].rate_gbps, 2.5);
  EXPECT_EQ(topology->devices.begin()->second.bridges.size(), 2u);
  EXPECT_EQ(topology->problem, "none really");
  for (const char* bad :
       {"cpu", "cpu x 0 0 0 0", "cpu - 0 0 0 0", "cpu 0 0 0 0", "cpu 0 0 0 0 0 0", "cpu 0  0 0 0", "cpu -1 0 0 0 0",
        "cpu 99999999 0 0 0 0", "gpu 0", "node", "node 0 1e3", "nic eth0 0000:01 0 1", "nic eth0 - - fast",
        "device - - - - - - - - 0 0", "device 0000:01:00.0 10de 2330 30200 0 0-1 pci0000:00 - 1 0",
        "device 0000:01:00.0 10de 2330 30200 0 1-0 - - 0 0", "device 0000:01:00.0 - - - - - - - 0 2"})
    EXPECT_FALSE(topology_from_text(std::string(bad) + "\n")) << bad;
}

}  // namespace
}  // namespace thole::host
