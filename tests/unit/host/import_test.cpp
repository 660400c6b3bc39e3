// Machines from other programs' files: hwloc XML, nvidia-smi topo -m, nvidia-smi -q -x, trees of /sys and /proc.
#include "host/import/import.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "host/import/from_matrix.hpp"
#include "host/import/from_nvidia_smi.hpp"
#include "host/topology/complete.hpp"
#include "host/topology/from_hwloc.hpp"
#include "model/json.hpp"
#include "support/real_machines.hpp"
#include "test_folders.hpp"

namespace thole::host {
namespace {

using model::LinkKind;
using testing::HasSubstr;

const std::string matrices = THOLE_SOURCE_DIR "/tests/topologies/nvsmi/";

std::size_t distinct(const std::vector<model::Cpu>& cpus, std::optional<int> model::Cpu::*member) {
  std::set<int> values;
  for (const model::Cpu& cpu : cpus)
    if (cpu.*member) values.insert(*(cpu.*member));
  return values.size();
}

std::string failure_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.full();
  }
  return "nothing was thrown";
}

// What lstopo 2.9 counts in these files (of v3 exports after their header was edited), but for what we leave out on purpose:
// GPU memory on POWER9, consoles (1002:515e). `cpu_less`: of the memory nodes.
struct Export {
  const char* name;
  std::size_t pus, cores, packages, nodes, cpu_less, gpus;
};
const Export exports[] = {
    {"hwloc/16amd64-8n2c-cpusets", 10, 10, 6, 5, 2, 0}, {"hwloc/16em64t-4s2c2t-offlines", 7, 6, 4, 1, 0, 0},
    {"hwloc/24em64t-2n6c2t-pci", 24, 12, 2, 2, 0, 3}, {"hwloc/32em64t-2n8c2t-pci-normalio", 32, 16, 2, 2, 0, 4},
    {"hwloc/64intel64-heteromem", 64, 16, 1, 8, 4, 0}, {"hwloc/8intel64-4n2t-memattrs", 8, 0, 0, 4, 0, 0},
    {"hwloc/96em64t-4n4d3ca2co-pci", 96, 96, 16, 4, 0, 0}, {"hwloc/fakecpukinds", 4, 2, 1, 1, 0, 0},
    // whole: 48 of its PUs are disallowed to whoever exported it
    {"hwloc/irregulargroups-disallowed", 64, 64, 8, 8, 0, 2}, {"hwloc/linux__nvidia-dgx-gb10", 20, 20, 1, 1, 0, 0},
    {"hwloc/nvidiaDGX2", 4, 4, 2, 2, 0, 16}, {"hwloc/power8gpudistances", 16, 8, 2, 2, 0, 4},
    {"hwloc/x86__AMD-19h-Zen3-2xEpyc-7763", 128, 128, 2, 1, 0, 0},
    {"hwloc/x86__AMD-19h-Zen4-2xEpyc-9654", 384, 192, 2, 1, 0, 0},
    {"hwloc/x86__Intel-SapphireRapids-2xXeonMax9460", 160, 80, 2, 1, 0, 0},
    {"mpibind/arm64-ulna-hwloc1", 256, 64, 2, 2, 0, 2}, {"mpibind/cascade-lake-ap-snl-hwloc1", 192, 96, 4, 4, 0, 0},
    {"mpibind/coral-butte-hwloc1", 176, 44, 2, 2, 0, 4}, {"mpibind/coral-ea-hwloc1", 160, 20, 2, 2, 0, 4},
    {"mpibind/coral-lassen-hwloc1", 160, 40, 2, 2, 0, 4}, {"mpibind/coral-lassen", 160, 40, 2, 2, 0, 4},
    {"mpibind/coral-rzansel-hwloc1", 176, 44, 2, 2, 0, 4}, {"mpibind/cts1-pascal", 72, 36, 2, 2, 0, 2},
    {"mpibind/cts1-quartz-smt1", 36, 36, 2, 2, 0, 0}, {"mpibind/eas-tioga", 128, 64, 1, 4, 0, 8},
    {"mpibind/epyc-corona-hwloc1", 96, 48, 2, 8, 0, 4}, {"mpibind/epyc-corona-p2", 96, 48, 2, 2, 0, 8},
    {"mpibind/epyc-corona", 96, 48, 2, 8, 0, 4}, {"mpibind/epyc-dual-sock-hwloc1", 128, 64, 2, 8, 0, 0},
    {"mpibind/g4dnmetal", 96, 48, 2, 2, 0, 8}, {"mpibind/knl-quad-cache-hwloc1", 272, 68, 1, 1, 0, 0},
    {"mpibind/knl-quad-flat-hwloc1", 272, 68, 1, 2, 1, 0}, {"mpibind/knl-snc4-cache-hwloc1", 272, 68, 1, 4, 0, 0},
    {"mpibind/knl-snc4-flat-hwloc1", 272, 68, 1, 8, 4, 0}, {"prrte/test-topo", 176, 176, 2, 4, 0, 0},
    {"prrte/test-topo2", 48, 24, 1, 4, 0, 1}, {"prrte/turin-4gpu-nvml", 256, 128, 2, 8, 0, 4},
    {"prrte/turin-4gpu", 256, 128, 2, 8, 0, 4}};

// One test for all: reading the machines takes a second, and every test is a process of its own.
TEST(HwlocExports, AreReadWhole) {
  for (const Export& expected : exports) {
    SCOPED_TRACE(expected.name);
    const model::Machine& machine = test::real_machines().at(expected.name);
    EXPECT_EQ(machine.cpus.size(), expected.pus);
    EXPECT_EQ(distinct(machine.cpus, &model::Cpu::core), expected.cores);
    EXPECT_EQ(distinct(machine.cpus, &model::Cpu::package), expected.packages);
    EXPECT_EQ(machine.numa.size(), expected.nodes);
    EXPECT_EQ(machine.numa.size() - distinct(machine.cpus, &model::Cpu::numa), expected.cpu_less);
    EXPECT_EQ(machine.gpus.size(), expected.gpus);
  }
  const auto of = [](const char* source) {
    return std::count_if(test::real_machines().begin(), test::real_machines().end(),
                         [&](const auto& each) { return each.first.starts_with(source); });
  };
  EXPECT_EQ(of("hwloc/") + of("mpibind/") + of("prrte/"), static_cast<long>(std::size(exports)));
}

void expect_sound(const model::Machine& machine) {
  EXPECT_EQ(model::machine_from_json(model::to_json(machine)), machine);
  std::set<model::PciAddress> addresses;
  for (const model::Gpu& gpu : machine.gpus) addresses.insert(*gpu.pci);
  for (const model::Nic& nic : machine.nics)
    EXPECT_TRUE(!nic.pci || addresses.insert(*nic.pci).second) << nic.name;
  model::CpuSet online;
  for (const model::Cpu& cpu : machine.cpus) online.add(cpu.id);
  for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
    const model::Gpu& gpu = machine.gpus[i];
    EXPECT_TRUE(i == 0 || machine.gpus[i - 1].pci <= gpu.pci);
    EXPECT_TRUE((gpu.near_cpus.node.value_or(model::CpuSet()) - online).empty());
    std::set<model::PciAddress> pci_links, fast_links;
    for (const model::Link& link : gpu.links) {
      EXPECT_TRUE(addresses.contains(link.to)) << link.to.to_string();
      EXPECT_NE(link.to, *gpu.pci);
      auto& kind = link.kind >= LinkKind::pix ? pci_links : fast_links;
      EXPECT_TRUE(kind.insert(link.to).second) << "twice: " << link.to.to_string();
    }
  }
}

TEST(RealMachines, AreSoundMachineFiles) {
  EXPECT_GE(test::real_machines().size(), 130u);
  for (const auto& [name, machine] : test::real_machines()) {
    SCOPED_TRACE(name);
    expect_sound(machine);
  }
}

TEST(HwlocXml, OfVersionThreeIsReadAndItsDevicesKeepTheirKinds) {
  std::string xml = "<topology version=\"3.0\"><object type=\"OSDev\" osdev_type=\"12\"/><object osdev_type=\"48\" x=\"y\"/>"
                    "<object type=\"PU\"/><object osdev_type=\"1\"/><object osdev_type=\"16\"></object></topology>";
  downgrade_hwloc_xml(xml);
  EXPECT_EQ(xml, "<topology version=\"2.0\"><object type=\"OSDev\" osdev_type=\"1\"/><object osdev_type=\"3\" x=\"y\"/>"
                 "<object type=\"PU\"/><object osdev_type=\"0\"/><object osdev_type=\"2\"></object></topology>");
  for (const char* other :
       {"", "<topology>", "<topology version=\"2.0\"><object osdev_type=\"12\"/>", "<topology version=\"3"}) {
    std::string untouched = other;
    downgrade_hwloc_xml(untouched);
    EXPECT_EQ(untouched, other);
  }
}

TEST(HwlocXml, DamagedIsAnErrorAndNoCrash) {
  const auto good = read_file((test::captured_tree("mpibind/topo-xml.tar.gz") / "mpibind/eas-tioga.xml").string());
  ASSERT_TRUE(good);
  test::MadeUpTree folder;
  for (std::size_t cut = 200; cut < good->size(); cut += good->size() / 7) {
    folder.file("cut.xml", good->substr(0, cut));
    EXPECT_THAT(failure_of([&] { import_file(folder.root() + "/cut.xml", test::topology_reader()); }), HasSubstr("cut.xml"))
        << cut;
  }
}

TEST(HwlocXml, NvlinkIsCountedByTheBandwidthOfOne) {
  std::map<std::string, int> links;
  for (const model::Link& link : test::real_machines().at("prrte/turin-4gpu-nvml").gpus[0].links)
    if (link.count) links[fmt::format("{} {}", model::to_string(link.kind), *link.count)]++;
  EXPECT_EQ(links, (std::map<std::string, int>{{"nvlink 6", 3}}));  // nvidia-smi topo -m of this model says NV6
}

// ---- nvidia-smi topo -m

model::Machine matrix(const std::string& text) { return machine_of_matrix(text, "topo.txt"); }

std::string link_between(const model::Machine& machine, std::size_t a, const model::PciAddress& to) {
  for (const model::Link& link : machine.gpus.at(a).links)
    if (link.to == to) return model::to_string(link.kind) + (link.count ? std::to_string(*link.count) : std::string());
  return "none";
}

const std::string plain =
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    "GPU0\t X \tNV4\tPHB\t0-7\t0\t\tN/A\n"
    "GPU1\tNV4\t X \tSYS\t8-15\t1\t\tN/A\n"
    "NIC0\tPHB\tSYS\t X \t\t\t\t\n\nLegend:\n\n  X    = Self\n  NV#  = Connection traversing a bonded set of # NVLinks\n\n"
    "NIC Legend:\n\n  NIC0: mlx5_bond_0\n";

TEST(Matrix, IsReadWithLegendAffinitiesAndNics) {
  const model::Machine machine = matrix(plain);
  ASSERT_EQ(machine.gpus.size(), 2u);
  ASSERT_EQ(machine.nics.size(), 1u);
  EXPECT_EQ(machine.nics[0].name, "mlx5_bond_0");
  EXPECT_EQ(machine.gpus[1].numa, 1);
  EXPECT_EQ(machine.gpus[1].near_cpus.node, model::CpuSet::parse("8-15"));
  EXPECT_EQ(link_between(machine, 0, *machine.gpus[1].pci), "nvlink4");
  EXPECT_EQ(link_between(machine, 0, *machine.nics[0].pci), "phb");
  EXPECT_EQ(link_between(machine, 1, *machine.nics[0].pci), "sys");
  EXPECT_EQ(machine.cpus.size(), 16u);
  EXPECT_EQ(machine.cpus[9].numa, 1);
  EXPECT_EQ(machine.cpus[9].core, std::nullopt);  // the table does not tell
  EXPECT_EQ(machine.numa.size(), 2u);
  EXPECT_FALSE(machine.gpus[0].coherent);
}

TEST(Matrix, IsTheSameWhateverBlanksAndEscapesAreInIt) {
  std::string spaced, underlined = "\x1b[4m" + plain, windows;
  for (char c : plain) spaced += c == '\t' ? std::string("      ") : std::string(1, c);
  underlined.insert(underlined.find('\n'), "\x1b[0m");
  const auto commented = [](const std::string& sign) {
    std::string text = sign;
    for (char c : plain) text += c == '\n' ? "\n" + sign : std::string(1, c);
    return text + "\n";
  };
  for (char c : plain) windows += c == '\n' ? std::string("\r\n") : std::string(1, c);
  for (const std::string& other : {spaced, underlined, windows, "$ nvidia-smi topo -m\n" + plain + "\n$ exit\n", plain + plain,
                                   commented("# "), commented("#"), commented("// "), commented("> "), "\xef\xbb\xbf" + plain})
    EXPECT_EQ(matrix(other), matrix(plain)) << other;
}

TEST(Matrix, JoinedCellsAreTakenApart) {
  const model::Machine machine =
      matrix("     GPU0 GPU1 GPU2 CPU Affinity\nGPU0 X NODENV2 0-3\nGPU1 NODE X PIX 0-3\nGPU2 NV2PIX X 0-3\n");
  EXPECT_EQ(link_between(machine, 0, *machine.gpus[2].pci), "nvlink2");
  EXPECT_EQ(link_between(machine, 2, *machine.gpus[1].pci), "pix");
}

TEST(Matrix, ColumnsThatAreMissingOrEmptyAreUnknown) {
  const model::Machine old =
      matrix("\tGPU0\tGPU1\tmlx4_0\tCPU Affinity\nGPU0\t X \tSOC\tPHB\t0-5\nGPU1\tSOC\t X \tN/A\t6-11\n");
  EXPECT_EQ(old.nics.at(0).name, "mlx4_0");
  EXPECT_EQ(link_between(old, 0, *old.gpus[1].pci), "sys");        // called SOC by drivers before 387
  EXPECT_EQ(link_between(old, 1, *old.nics[0].pci), "none");
  EXPECT_EQ(old.gpus[0].numa, std::nullopt);
  const model::Machine bare = matrix("\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tPIX\nGPU1\tPIX\tX\n");
  EXPECT_TRUE(bare.cpus.empty());
  EXPECT_EQ(bare.gpus[0].near_cpus.node, std::nullopt);
  const model::Machine own = matrix("\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\n"
                                    "GPU0\t X \tXGMI\tPIX\tSYS\nGPU1\tXGMI\t X \tSYS\tPIX\n"
                                    "NIC0\tPIX\tSYS\t X \tPXB\nNIC1\tSYS\tPIX\tPXB\t X \n");
  EXPECT_EQ(own.gpus[0].links[0].kind, model::LinkKind::xgmi) << "as thole topo --matrix has it";
  EXPECT_EQ(own.gpus[0].vendor, model::Vendor::amd);
  ASSERT_EQ(own.nics[0].links.size(), 1u) << "GPUs list what joins them to a NIC";
  EXPECT_EQ(own.nics[0].links[0], (model::Link{*model::PciAddress::parse("ff01:01:00.0"), model::LinkKind::pxb, {}, {}}));
  const model::Machine one = matrix("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-71\t0-1\t\t4\n");
  EXPECT_EQ(one.gpus[0].numa, std::nullopt);                       // two nodes are not one
  EXPECT_TRUE(one.gpus[0].coherent);
  EXPECT_EQ(one.gpus[0].memory_numa, 4);
  const model::Machine vm = matrix("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-7\t\tN/A\t\tN/A\n");
  EXPECT_EQ(vm.gpus[0].near_cpus.node, model::CpuSet::parse("0-7"));
}

TEST(Matrix, InACpusetTheAffinityOfOtherGpusIsEmptyAndSoUnknown) {
  const model::Machine machine = import_file(matrices + "8xa100-pcie-nvbridge.txt", test::topology_reader());
  EXPECT_EQ(machine.name, "8xa100-pcie-nvbridge");
  EXPECT_EQ(machine.gpus[3].near_cpus.node, model::CpuSet::parse("0-15,56-71"));
  EXPECT_EQ(machine.gpus[4].near_cpus.node, std::nullopt);
  EXPECT_EQ(machine.gpus[4].numa, 1);
}

TEST(Matrix, ManyMoreNvlinksThanAGpuHasAreASwitch) {
  EXPECT_EQ(link_between(test::real_machines().at("nvsmi/dgx2"), 0, *model::PciAddress::parse("ff00:0f:00.0")), "nvswitch6");
  EXPECT_EQ(link_between(test::real_machines().at("nvsmi/4xh200-turin-nps4"), 0, *model::PciAddress::parse("ff00:01:00.0")),
            "nvlink6");
}

TEST(Matrix, ANicStandsOnTheNodeOfTheGpusThatReachItWithinTheirs) {
  const model::Machine machine = matrix("\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\n"
                                        "GPU0\t X \tSYS\tNODE\tSYS\tSYS\tNODE\t0-7\t0\n"
                                        "GPU1\tSYS\t X \tSYS\tPIX\tSYS\tPHB\t8-15\t1\n");
  EXPECT_EQ(machine.nics[0].numa, 0);
  EXPECT_EQ(machine.nics[1].numa, 1);
  EXPECT_EQ(machine.nics[2].numa, std::nullopt) << "far from both";
  EXPECT_EQ(machine.nics[3].numa, std::nullopt) << "the table contradicts itself";
}

TEST(Matrix, TheNodeOfAGpusOwnMemoryIsANodeOfTheMachine) {
  const model::Machine machine = matrix("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X \t0-71\t0\t\t4\n");
  ASSERT_EQ(machine.numa.size(), 2u);
  EXPECT_EQ(machine.numa[1].id, 4);
  EXPECT_TRUE(std::none_of(machine.cpus.begin(), machine.cpus.end(), [](const model::Cpu& cpu) { return cpu.numa == 4; }));
}

TEST(Matrix, ListsOfCpusThatTheColumnMayHaveCutAreDoubted) {
  const auto doubts = [](const std::string& first, const std::string& second) {
    std::vector<std::string> found;
    machine_of_matrix("\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tSYS\t" + first + "\nGPU1\tSYS\tX\t" + second + "\n", "topo.txt",
                      &found);
    return found;
  };
  EXPECT_THAT(doubts("0,2,4,6,8,10", "1,3,5,7,9,11"),
              testing::ElementsAre(HasSubstr("GPUs 0,1: the list of near CPUs may be cut")));
  EXPECT_THAT(doubts("0,4,8,12,16,20", "0-3"), testing::ElementsAre(HasSubstr("GPU 0: ")));
  for (const char* whole : {"0,2,4,6", "0-15,32-47", "0,1,2,3,4,5,6", "112-127,240-255", "3", "0,2,7,8,20,31,40"})
    EXPECT_THAT(doubts(whole, "64"), testing::IsEmpty()) << whole;
}

// As a terminal of that width shows it, or what is copied from one.
std::string wrapped(const std::string& text, std::size_t width) {
  std::string shown;
  std::size_t column = 0;
  const auto put = [&](char c) {
    if (column == width) shown += '\n', column = 0;
    shown += c, ++column;
  };
  for (const char c : text) {
    if (c == '\n') shown += c, column = 0;
    else if (c != '\t') put(c);
    else do put(' ');
      while (column % 8 != 0 && column < width);
  }
  return shown;
}

TEST(Matrix, ThatATerminalHasWrappedIsRefusedOrTheSame) {
  for (const auto& file : std::filesystem::directory_iterator(matrices)) {
    if (file.path().extension() != ".txt") continue;
    const std::string text = read_file(file.path().string()).value();
    const model::Machine whole = matrix(text);
    const std::size_t header = wrapped(text, 10'000).find('\n');
    for (std::size_t width = 16; width <= header + 1; width += width < header - 20 ? 3 : 1) {
      const std::string shown = wrapped(text, width);
      const std::string failure = failure_of([&] { EXPECT_EQ(matrix(shown), whole) << shown; });
      if (width < header) {
        EXPECT_THAT(failure, testing::AnyOf(HasSubstr("nvidia-smi topo -m > FILE"), HasSubstr("no header"))) << shown;
      } else if (width > header) {
        EXPECT_EQ(failure, "nothing was thrown") << file.path();
      }
    }
  }
}

TEST(Matrix, AWrappedRowIsNamedWithItsLine) {
  const std::string dgx2 = wrapped(read_file(matrices + "dgx2.txt").value(), 80);
  EXPECT_THAT(failure_of([&] { matrix(dgx2); }), HasSubstr("line 1: no column \"CPU Affinity\": the table is wrapped or cut"));
  const std::string volta = wrapped(read_file(matrices + "dgx1-volta.txt").value(), 110);
  EXPECT_THAT(failure_of([&] { matrix(volta); }), HasSubstr("line 2: MA begins no row: the table is wrapped or incomplete"));
}

TEST(Matrix, MistakesAreNamedWithTheirLine) {
  const std::pair<const char*, const char*> mistakes[] = {
      {"nothing", "no header"},
      {"\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tPIX\n", "line 1: GPU1 has no line of its own"},
      {"\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tPIX\nGPU1\tPIX\n", "line 3: GPU1 has 1 of 2 connections"},
      {"\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tFAST\nGPU1\tPIX\tX\n", "line 2: no kind of connection: FAST"},
      {"\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tNV0\nGPU1\tPIX\tX\n", "no kind of connection: NV0"},
      {"\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tPIX\nGPU0\tX\tPIX\nGPU1\tPIX\tX\n", "line 3: GPU0 is there twice"},
      {"\tGPU0\tGPU1\tGPU1\tCPU Affinity\nGPU0\tX\tPIX\n", "line 1: GPU1 is there twice"},
      {"\tGPU0\tGPU1\nGPU0\tX\tPIX\nGPU1\tPIX\tX\n", "line 1: no column \"CPU Affinity\""},
      {"\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tPIX\t0-3\n-5\nGPU1\tPIX\tX\t6\n", "line 3: -5 begins no row"},
      {"\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tPIX\t0\nGPU2\tPIX\tX\t0\nGPU1\tPIX\tX\t6\n", "line 3: GPU2 begins no row"},
      {"\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tPIX\t0\nGPU1\tPIX\tX\t1\n1-17\n", "line 4: 1-17 begins no row"},
      {"\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tPIX\tall\nGPU1\tPIX\tX\t0-3\n", "line 2: no list of CPUs: all"}};
  for (const auto& [text, why] : mistakes)
    EXPECT_THAT(failure_of([&, text = text] { matrix(text); }), testing::AllOf(HasSubstr(why), HasSubstr("topo.txt"))) << text;
}

// ---- nvidia-smi -q -x

TEST(NvidiaSmiReport, GivesIdentityMemoryMigAndUse) {
  const model::Machine machine = import_file(matrices + "q-x-mig.xml", test::topology_reader());
  ASSERT_EQ(machine.gpus.size(), 3u);                              // in PCI order, not the report's
  const model::Gpu &mig = machine.gpus[0], &bare = machine.gpus[1], &busy = machine.gpus[2];
  EXPECT_EQ(busy.pci->to_string(), "0000:87:00.0");
  EXPECT_EQ(busy.uuid, "GPU-11111111-aaaa-4bbb-8ccc-000000000002");
  EXPECT_EQ(busy.model, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ(busy.minor, 4);
  EXPECT_EQ(busy.memory_mib, 81920u);
  EXPECT_EQ(*busy.compute_mode, "exclusive-process");
  EXPECT_FALSE(*busy.display);
  EXPECT_FALSE(busy.mig_mode);
  EXPECT_EQ(*busy.use.memory_used_mib, 11000u);
  EXPECT_EQ(*busy.use.utilization_percent, 97);
  EXPECT_EQ(*busy.use.temperature_c, 61);
  EXPECT_EQ(*busy.use.power_w, 301.25);
  EXPECT_EQ(*busy.use.power_limit_w, 400);
  ASSERT_EQ((*busy.use.processes).size(), 1u);
  EXPECT_EQ((*busy.use.processes)[0].command, "python train.py <a&b>");
  EXPECT_TRUE(mig.mig_mode);
  ASSERT_EQ(mig.mig.size(), 2u);
  EXPECT_EQ(mig.mig[0].uuid, "MIG-GPU-11111111-aaaa-4bbb-8ccc-000000000000/1/0");
  EXPECT_EQ(mig.mig[0].memory_mib, 40448u);
  EXPECT_EQ((*mig.mig[0].use.processes).at(0).kind, model::GpuProcess::Kind::mps);
  EXPECT_TRUE((*mig.mig[1].use.processes).empty());
  EXPECT_FALSE(mig.use.utilization_percent.known());               // "N/A" is not 0
  EXPECT_EQ(bare.uuid, "");
  EXPECT_EQ(bare.memory_mib, std::nullopt);
  EXPECT_FALSE(bare.use.processes.known());
  EXPECT_FALSE(bare.display.known());
}

TEST(NvidiaSmiReport, ThatIsNoneIsRefused) {
  EXPECT_THAT(failure_of([] { machine_of_nvidia_smi("<a><b></a>", "x.xml"); }), HasSubstr("no XML"));
  EXPECT_THAT(failure_of([] { machine_of_nvidia_smi("<a/>", "x.xml"); }), HasSubstr("nvidia_smi_log"));
  EXPECT_TRUE(machine_of_nvidia_smi("<nvidia_smi_log/>", "x.xml").gpus.empty());
  // Entities are not expanded, so a billion laughs are none.
  EXPECT_TRUE(
      machine_of_nvidia_smi("<!DOCTYPE l [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;\">]><nvidia_smi_log>&b;</nvidia_smi_log>", "x")
          .gpus.empty());
}

// ---- what a file is

TEST(Import, WhatIsNoneOfTheKindsIsRefusedWithAllOfThem) {
  test::MadeUpTree folder;
  const std::pair<const char*, const char*> files[] = {{"hello, world\n", "lstopo FILE.xml"},
                                                       {"", "empty"},
                                                       {"{\"gpus\": []}", "lstopo FILE.xml"},
                                                       {"\x1f\x8b rest", "unpack it first"},
                                                       {"BZh9 rest", "unpack it first"}};
  for (const auto& [text, why] : files) {
    folder.file("some", text);
    EXPECT_THAT(failure_of([&] { import_file(folder.root() + "/some", test::topology_reader()); }), HasSubstr(why)) << text;
  }
  EXPECT_THAT(failure_of([&] { import_file(folder.root() + "/nowhere", test::topology_reader()); }), HasSubstr("No such file"));
  EXPECT_THAT(failure_of([&] { root_in(folder.root()); }), HasSubstr("sys and proc"));
  EXPECT_THAT(failure_of([] { root_in(test::captured_tree("kfd/k8s-device-plugin.tar.gz").string()); }), HasSubstr("no /sys"));
}

TEST(Import, WithoutHwlocItsFilesAreRefusedWithTheFix) {
  const TopologyReader without({THOLE_BINARY_DIR "/fake/fake_probe", "", "/nonexistent/libhwloc.so.15"});
  const std::string xml = (test::captured_tree("mpibind/topo-xml.tar.gz") / "mpibind/eas-tioga.xml").string();
  EXPECT_THAT(failure_of([&] { import_file(xml, without); }),
              testing::AllOf(HasSubstr("libhwloc"), HasSubstr("apt-get install libhwloc15")));
  EXPECT_EQ(import_file(matrices + "dgx2.txt", without).gpus.size(), 16u);
}

TEST(Import, ATreesGpusAreThoseOnItsBusThatCompute) {
  test::MadeUpTree tree;
  tree.file("sys/devices/system/cpu/online", "0-3\n");
  for (int cpu = 0; cpu < 4; ++cpu) tree.file("sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/core_id", "0\n");
  tree.pci("pci0000:00", "0000:01:00.0", "0x10de", "0x2330", "0x030200");              // no driver: still a GPU
  tree.pci("pci0000:00", "0000:02:00.0", "0x1a03", "0x2000", "0x030000");              // the board's console
  tree.pci("pci0000:00", "0000:03:00.0", "0x1002", "0x515e", "0x030000");              // another
  const std::string card = tree.pci("pci0000:00", "0000:04:00.0", "0x1002", "0x744c", "0x030000");
  tree.folder(card + "/drm/renderD128");
  const auto gpus = import_tree(tree.root(), {}, test::topology_reader()).gpus;
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].pci->to_string(), "0000:01:00.0");
  EXPECT_EQ(gpus[1].pci->to_string(), "0000:04:00.0");
}

TEST(MachineFileWithTopology, FillsWhatAMachineFileLeavesOut) {
  model::Machine machine;
  machine.gpus.resize(2);
  machine.gpus[0].pci = model::PciAddress::parse("0000:c1:00.0");
  machine.gpus[0].numa = 99;                                       // what the file says stays
  machine.gpus[1].pci = model::PciAddress::parse("0000:c6:00.0");
  const model::Machine& topology = test::real_machines().at("mpibind/eas-tioga");
  complete(machine, topology);
  EXPECT_EQ(machine.cpus, topology.cpus);
  EXPECT_EQ(machine.numa, topology.numa);
  EXPECT_EQ(machine.nics, topology.nics);
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_EQ(machine.gpus[0].numa, 99);
  EXPECT_EQ(machine.gpus[1].numa, 3);
  EXPECT_EQ(machine.gpus[0].near_cpus.node, model::CpuSet::parse("48-55,112-119"));
  // no GPU of this machine
  for (const model::Link& link : machine.gpus[0].links) EXPECT_NE(link.to.to_string(), "0000:d1:00.0");
  model::Machine empty;
  complete(empty, topology);
  EXPECT_EQ(empty.gpus.size(), 8u);
}

}  // namespace
}  // namespace thole::host
