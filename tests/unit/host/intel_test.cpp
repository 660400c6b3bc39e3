#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "host/drm/clients.hpp"
#include "host/gpu/intel/backend.hpp"
#include "host/gpu/intel/identity.hpp"
#include "host/gpu/intel/memory.hpp"
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

// A driver that answers the two queries; the layouts written anew by xe_drm.h and i915_drm.h of Linux 6.12.
struct FakeDrm {
  struct Region { std::uint16_t memory_class, instance; std::uint64_t total; };
  std::vector<Region> regions;
  int calls = 0;

  std::vector<char> answer(std::size_t head) const {
    std::vector<char> bytes(head + regions.size() * 88, '\xee');  // what is not asked for is anything
    const std::uint32_t count = static_cast<std::uint32_t>(regions.size());
    std::memcpy(bytes.data(), &count, 4);
    for (std::size_t i = 0; i < regions.size(); ++i) {
      std::memcpy(&bytes[head + i * 88], &regions[i].memory_class, 2);
      std::memcpy(&bytes[head + i * 88 + 2], &regions[i].instance, 2);
      std::memcpy(&bytes[head + i * 88 + 8], &regions[i].total, 8);
    }
    return bytes;
  }
  int operator()(unsigned long request, void* argument) {
    ++calls;
    std::uint64_t words[5];
    if (request == 0xC0286440) {                           // DRM_IOCTL_XE_DEVICE_QUERY
      std::memcpy(words, argument, 40);
      std::uint32_t query, size;
      std::memcpy(&query, &words[1], 4);
      std::memcpy(&size, reinterpret_cast<char*>(&words[1]) + 4, 4);
      if (query != 1) return -1;
      const auto bytes = answer(8);
      if (size != 0 && size != bytes.size()) return -1;
      if (size != 0) std::memcpy(reinterpret_cast<void*>(words[2]), bytes.data(), bytes.size());
      size = static_cast<std::uint32_t>(bytes.size());
      std::memcpy(static_cast<char*>(argument) + 12, &size, 4);
      return 0;
    }
    if (request != 0xC0106479) return -1;                  // DRM_IOCTL_I915_QUERY
    std::memcpy(words, argument, 16);
    char* item = reinterpret_cast<char*>(words[1]);
    std::uint64_t query, data;
    std::int32_t length;
    std::memcpy(&query, item, 8);
    std::memcpy(&length, item + 8, 4);
    std::memcpy(&data, item + 16, 8);
    const auto bytes = answer(16);
    if (query != 4 || (length != 0 && length != static_cast<std::int32_t>(bytes.size()))) length = -22;
    else if (length != 0) std::memcpy(reinterpret_cast<void*>(data), bytes.data(), bytes.size());
    else length = static_cast<std::int32_t>(bytes.size());
    std::memcpy(item + 8, &length, 4);
    return 0;
  }
};

TEST(IntelMemory, EachDriverTellsTheMemoriesOfItsCard) {
  using intel::Driver;
  for (Driver driver : {Driver::xe, Driver::i915}) {
    FakeDrm kernel{{{0, 0, 64ull << 30}, {1, 1, 12ull << 30}, {1, 2, 11ull << 30}}};
    EXPECT_EQ(intel::card_memories(driver, std::ref(kernel)), (std::vector<std::uint64_t>{12ull << 30, 11ull << 30}));
    EXPECT_EQ(kernel.calls, 2);
    FakeDrm built_in{{{0, 0, 64ull << 30}}};
    EXPECT_TRUE(intel::card_memories(driver, std::ref(built_in)).empty());
  }
}

TEST(IntelMemory, ADriverThatDoesNotKnowTheQueryTellsNothing) {
  using intel::Driver;
  const auto refuse = [](unsigned long, void*) { return -1; };
  const auto huge = [](unsigned long request, void* argument) {
    const std::uint32_t size = 0x7fffffff;
    char* at = static_cast<char*>(argument) + 12;
    if (request == 0xC0106479) {
      std::uint64_t item;
      std::memcpy(&item, static_cast<char*>(argument) + 8, 8);
      at = reinterpret_cast<char*>(item) + 8;
    }
    std::memcpy(at, &size, 4);
    return 0;
  };
  const auto cut = [](unsigned long request, void* argument) {  // more regions told than there are
    FakeDrm kernel{{{1, 1, 12ull << 30}}};
    const int rc = kernel(request, argument);
    std::uint64_t data;
    std::memcpy(&data, static_cast<char*>(argument) + 16, 8);
    const std::uint32_t many = 1000;
    if (data != 0) std::memcpy(reinterpret_cast<void*>(data), &many, 4);
    return rc;
  };
  for (Driver driver : {Driver::xe, Driver::i915, Driver::none}) {
    EXPECT_TRUE(intel::card_memories(driver, refuse).empty());
    EXPECT_TRUE(intel::card_memories(driver, huge).empty());
  }
  EXPECT_EQ(intel::card_memories(Driver::xe, cut).size(), 1u);
}

// The whole way of a figure that a driver has to be asked for: into the reading, kept for the boot, not asked again.
TEST(FileBackendMemory, IsAskedOnceABoot) {
  static int asked, answers;
  asked = answers = 0;
  test::MadeUpTree tree;
  tree.file("proc/sys/kernel/random/boot_id", "one\n");
  const auto card = [] {
    Gpu gpu;
    gpu.vendor = model::Vendor::intel;
    gpu.pci = model::PciAddress{0, 3, 0, 0};
    return gpu;
  };
  static Gpu gpu;
  gpu = card();
  const FileVendor made_up{
      .vendor = model::Vendor::intel,
      .source = "test",
      .present = [](const Tree&) { return true; },
      .identify = [](const Tree&) { return std::vector{gpu}; },
      .observe =
          [](const Tree&, bool memory_wanted, const std::function<void(Gpu)>& emit) {
            Gpu seen = gpu;
            ++answers;
            asked += memory_wanted;
            if (memory_wanted) seen.memory_mib = 12216;
            emit(seen);
          },
      .generation = [](const Tree&) { return std::string("card0"); },
      .problem = [](const Tree&) { return std::string(); },
  };
  const auto read = [&](FileBackend& backend) { return backend.read(Millis(1000)).gpus.at(0).memory_mib; };
  const FileOptions options{tree.root(), "", tree.root() + "/runtime"};
  for (int process = 0; process < 2; ++process) {
    FileBackend backend(made_up, options);
    EXPECT_EQ(read(backend), 12216u);
    EXPECT_EQ(read(backend), 12216u);
  }
  EXPECT_EQ(answers, 4);
  EXPECT_EQ(asked, 1);
  tree.file("proc/sys/kernel/random/boot_id", "two\n");
  FileBackend after_boot(made_up, options);
  EXPECT_EQ(read(after_boot), 12216u);
  EXPECT_EQ(asked, 2);
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
