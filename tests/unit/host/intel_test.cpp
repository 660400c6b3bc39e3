#include <gtest/gtest.h>

#include <filesystem>

#include "host/drm/clients.hpp"
#include "host/gpu/intel/backend.hpp"
#include "host/gpu/intel/identity.hpp"
#include "host/gpu/intel/use.hpp"
#include "topologies/captured.hpp"

namespace thole::host {
namespace {

using model::Gpu;
using model::GpuProcess;
using namespace std::chrono_literals;

// Made-up machines of Intel GPUs: no captured tree of one was to be had. File names as the kernel's
// Documentation/ABI/testing/sysfs-driver-intel-{i915,xe}-hwmon and the drivers themselves give them.
class Intel : public ::testing::Test {
 protected:
  std::string gpu(const std::string& address, const std::string& id, const std::string& driver, unsigned card) {
    std::string at = tree.pci("pci0000:00", address, "0x8086", id, "0x038000");
    if (!driver.empty()) {
      tree.folder("sys/bus/pci/drivers/" + driver);
      tree.link(at + "/driver", "sys/bus/pci/drivers/" + driver);
      tree.link("sys/bus/pci/drivers/" + driver + "/" + address, at);
    }
    if (driver == "i915" || driver == "xe") {
      tree.folder(at + "/drm/card" + std::to_string(card));
      tree.folder(at + "/drm/renderD" + std::to_string(128 + card));
    }
    return at;
  }
  void client(unsigned pid, const std::string& text) {
    const std::string at = "proc/" + std::to_string(pid);
    tree.file(at + "/fdinfo/3", text);
    tree.folder(at + "/fd");
    std::filesystem::create_symlink("/dev/dri/renderD128", tree.root() + "/" + at + "/fd/3");
  }
  std::vector<Gpu> gpus() { return IntelBackend({tree.root()}).read(Millis(1000)).gpus; }

  test::MadeUpTree tree;
};

TEST_F(Intel, CardsAreNamedByIdAndKeyedByPciAddress) {
  gpu("0000:03:00.0", "0xe20b", "xe", 0);
  gpu("0000:04:00.0", "0x56a0", "i915", 1);
  gpu("0000:05:00.0", "0x9999", "xe", 2);
  auto found = gpus();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].model, "Intel Arc B580");
  EXPECT_EQ(found[1].model, "Intel Arc A770");
  EXPECT_EQ(found[2].model, "Intel GPU [8086:9999]");
  EXPECT_EQ(found[0].key(), "pci-0000:03:00.0.0");
  EXPECT_EQ(found[1].minor, 129);
  for (const Gpu& each : found) {
    EXPECT_EQ(each.vendor, model::Vendor::intel);
    EXPECT_EQ(each.part, std::nullopt);
    EXPECT_EQ(each.cuda_index, std::nullopt);
    EXPECT_EQ(each.health, model::Health::ok);
  }
}

TEST_F(Intel, GraphicsOfTheCpuAreLeftOutButCountInLevelZerosOrder) {
  gpu("0000:00:02.0", "0x4680", "i915", 0);
  EXPECT_FALSE(IntelBackend({tree.root()}).present());
  EXPECT_TRUE(gpus().empty());
  gpu("0000:03:00.0", "0x56a0", "i915", 1);
  EXPECT_TRUE(IntelBackend({tree.root()}).present());
  auto found = gpus();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].model, "Intel Arc A770");
  EXPECT_EQ(found[0].cuda_index, 1);
}

TEST_F(Intel, DiscreteCardPassedIntoAVirtualMachineMaySitWhereTheCpusGraphicsDo) {
  gpu("0000:00:02.0", "0x56c0", "i915", 0);
  auto found = gpus();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].model, "Intel Data Center GPU Flex 170");
}

TEST_F(Intel, FunctionsOfVirtualMachinesAreLeftOut) {
  gpu("0000:03:00.0", "0x56c0", "i915", 0);
  tree.link(gpu("0000:03:00.1", "0x56c0", "i915", 1) + "/physfn", "sys/devices/pci0000:00/0000:03:00.0");
  gpu("0000:04:00.0", "0x56c0", "vfio-pci", 0);
  EXPECT_EQ(gpus().size(), 1u);
}

TEST_F(Intel, CardWithoutADriverIsUnreadableWithTheFix) {
  gpu("0000:03:00.0", "0xe20b", "", 0);
  auto found = gpus();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].health, model::Health::unreadable);
  EXPECT_NE(found[0].health_reason.find("load i915 or xe"), std::string::npos);
}

TEST_F(Intel, TilesOfAMaxAreGpusOfTheirOwn) {
  std::string xe = gpu("0000:29:00.0", "0x0bd5", "xe", 0);
  tree.folder(xe + "/tile0/gt0");
  tree.folder(xe + "/tile1/gt1");
  std::string i915 = gpu("0000:3a:00.0", "0x0bd5", "i915", 1);
  tree.folder(i915 + "/drm/card1/gt/gt0");
  tree.folder(i915 + "/drm/card1/gt/gt1");
  tree.file(i915 + "/drm/card1/lmem_total_bytes", "137438953472\n");
  auto found = gpus();
  ASSERT_EQ(found.size(), 4u);
  std::vector<std::string> keys;
  for (const Gpu& each : found) keys.push_back(each.key());
  EXPECT_EQ(keys, (std::vector<std::string>{"pci-0000:29:00.0.0", "pci-0000:29:00.0.1",  //
                                            "pci-0000:3a:00.0.0", "pci-0000:3a:00.0.1"}));
  EXPECT_EQ(found[1].part, 1);
  EXPECT_EQ(found[0].memory_mib, std::nullopt);
  EXPECT_EQ(found[2].memory_mib, 65536u);
}

TEST_F(Intel, MediaUnitIsNoTile) {
  std::string arc = gpu("0000:03:00.0", "0x56a0", "i915", 0);
  tree.folder(arc + "/drm/card0/gt/gt0");
  tree.folder(arc + "/drm/card0/gt/gt1");
  EXPECT_EQ(gpus().size(), 1u);
}

TEST_F(Intel, SensorsAndClientsAreRead) {
  std::string at = gpu("0000:03:00.0", "0xe20b", "xe", 0);
  tree.file(at + "/hwmon/hwmon2/temp2_input", "52000\n");
  tree.file(at + "/hwmon/hwmon2/power1_max", "190000000\n");
  tree.file("proc/1/status", "Name:\tinit\n");  // other processes are not hidden
  client(812, "drm-driver:\txe\ndrm-pdev:\t0000:03:00.0\ndrm-client-id:\t9\n"
              "drm-total-vram0:\t3 GiB\ndrm-resident-vram0:\t2048 MiB\n"
              "drm-resident-system:\t7 MiB\ndrm-cycles-ccs:\t1200\ndrm-total-cycles-ccs:\t99999\n");
  auto found = gpus();
  ASSERT_EQ(found.size(), 1u);
  const model::Use& use = found[0].use;
  EXPECT_EQ(use.temperature_c, 52.0);
  EXPECT_EQ(use.power_limit_w, 190.0);
  EXPECT_EQ(use.memory_used_mib, 2048u);
  ASSERT_TRUE(use.processes);
  ASSERT_EQ((*use.processes).size(), 1u);
  EXPECT_EQ((*use.processes)[0].pid, 812);
  EXPECT_EQ((*use.processes)[0].kind, GpuProcess::Kind::compute);
  EXPECT_EQ((*use.processes)[0].memory_mib, 2048u);
  EXPECT_FALSE(use.utilization_percent.known());  // one look at a counter is none
}

TEST_F(Intel, ProcessesThatCannotBeSeenAreNotTakenForNone) {
  gpu("0000:03:00.0", "0xe20b", "xe", 0);  // no /proc/1: other users' processes are hidden
  auto found = gpus();
  ASSERT_EQ(found.size(), 1u);
  using State = model::Metric<std::uint64_t>::State;
  EXPECT_EQ(found[0].use.memory_used_mib.state(), State::failed);
  EXPECT_NE(found[0].use.processes.why(), "");
  EXPECT_FALSE(found[0].use.processes.known());
}

TEST(IntelCounters, BusyIsTheShareOfTimeNotIdle) {
  struct Case {
    std::uint64_t idle_before, idle_after;
    int elapsed_ms;
    std::optional<double> busy;
  };
  for (const Case& c : {Case{1000, 1000, 50, 100.0}, Case{1000, 1025, 50, 50.0}, Case{1000, 1050, 50, 0.0},
                        Case{1000, 1052, 50, 0.0},             // rounding of the counter
                        Case{1000, 900, 50, std::nullopt},     // the counter was reset
                        Case{1000, 1000, 0, std::nullopt}}) {
    intel::Sample before, after;
    before.idle_ms = c.idle_before;
    after.idle_ms = c.idle_after;
    after.at = before.at + std::chrono::milliseconds(c.elapsed_ms);
    EXPECT_EQ(intel::busy_percent(before, after), c.busy) << c.idle_after;
  }
  EXPECT_EQ(intel::busy_percent({}, {}), std::nullopt);
}

// As on an Arc B580 (the card's counter is there and stays 0) and an A380 under xe (it has none).
TEST_F(Intel, TheEnergyCounterAndTheLimitThatCountAreRead) {
  const std::string sensors = gpu("0000:03:00.0", "0xe20b", "xe", 0) + "/hwmon/hwmon2";
  intel::IntelGpu entry;
  entry.driver = intel::Driver::xe;
  entry.device = "/sys/bus/pci/devices/0000:03:00.0";
  const auto energy = [&] { return intel::take_sample(Tree(tree.root()), entry).energy_uj; };
  tree.file(sensors + "/energy2_input", "5000000\n");
  EXPECT_EQ(energy(), 5'000'000u);
  tree.file(sensors + "/energy1_input", "0\n");
  EXPECT_EQ(energy(), 5'000'000u);
  tree.file(sensors + "/energy1_input", "7000000\n");
  EXPECT_EQ(energy(), 7'000'000u);
  for (const char* name : {"/power2_max", "/power1_cap", "/power1_max"}) {  // a later one counts before an earlier one
    static int watts = 50;
    tree.file(sensors + name, std::to_string(++watts) + "000000\n");
    EXPECT_EQ(gpus().at(0).use.power_limit_w, double(watts)) << name;
  }
}

TEST(IntelCounters, PowerIsEnergyOverTime) {
  intel::Sample before, after;
  before.energy_uj = 5'000'000;
  after.energy_uj = 12'500'000;
  after.at = before.at + 50ms;
  EXPECT_EQ(intel::power_w(before, after), 150.0);
  after.energy_uj = 1;
  EXPECT_EQ(intel::power_w(before, after), std::nullopt);
}

TEST(DrmFdinfo, KeysOfAllDriversAreUnderstood) {
  struct Case {
    const char* text;
    std::optional<std::uint64_t> kib;
    bool compute, graphics;
  };
  for (const Case& c :
       {Case{"drm-driver: amdgpu\ndrm-memory-vram: 2048 KiB\ndrm-memory-gtt: 9 KiB\ndrm-engine-compute: 5 ns\n",
             2048, true, false},
        Case{"drm-driver: i915\ndrm-total-local0: 9 MiB\ndrm-resident-local0: 1 MiB\ndrm-engine-render: 5 ns\n",
             1024, false, true},
        Case{"drm-driver: xe\ndrm-resident-vram0: 1 KiB\ndrm-resident-vram1: 2 KiB\ndrm-cycles-ccs: 0\ndrm-cycles-rcs: 7\n",
             3, false, true},
        Case{"drm-driver: xe\ndrm-engine-capacity-ccs: 4\n", std::nullopt, false, false},
        Case{"drm-driver: amdgpu\ndrm-memory-vram: 4097\n", 5, false, false},
        Case{"drm-driver: amdgpu\ndrm-memory-vram: many KiB\n", std::nullopt, false, false}}) {
    auto client = parse_drm_fdinfo(c.text);
    ASSERT_TRUE(client) << c.text;
    EXPECT_EQ(client->memory_kib(), c.kib) << c.text;
    EXPECT_EQ(client->compute, c.compute) << c.text;
    EXPECT_EQ(client->graphics, c.graphics) << c.text;
  }
  EXPECT_FALSE(parse_drm_fdinfo("pos:\t0\nflags:\t02100002\n"));
}

TEST_F(Intel, OneClientSeenThroughTwoDescriptorsCountsOnce) {
  const char* text = "drm-driver: xe\ndrm-client-id: 4\ndrm-resident-vram0: 1024 KiB\ndrm-cycles-ccs: 1\n";
  client(10, text);
  client(11, text);
  Tree files(tree.root());
  auto descriptors = find_drm_descriptors(files);
  EXPECT_EQ(descriptors.list.size(), 2u);
  auto clients = drm_clients(files, descriptors, {"renderD128"});
  ASSERT_EQ(clients.size(), 1u);
  EXPECT_EQ(clients[0].pid, 10);
  EXPECT_TRUE(drm_clients(files, descriptors, {"renderD129"}).empty());
}

TEST_F(Intel, SearchOfProcessesIsBounded) {
  tree.file("proc/1/status", "Name:\tinit\n");
  for (unsigned pid = 10; pid < 20; ++pid) client(pid, "drm-driver: xe\n");
  EXPECT_TRUE(find_drm_descriptors(Tree(tree.root())).complete);
  auto cut = find_drm_descriptors(Tree(tree.root()), 4);
  EXPECT_EQ(cut.list.size(), 4u);
  EXPECT_FALSE(cut.complete);
}

}  // namespace
}  // namespace thole::host
