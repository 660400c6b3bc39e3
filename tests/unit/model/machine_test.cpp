#include "model/machine.hpp"

#include <gtest/gtest.h>

#include "model/request.hpp"
#include "model/unit.hpp"

namespace thole::model {
namespace {

TEST(PciAddress, TakesTheFormsOfKernelAndDriverAndPrintsOne) {
  for (auto text : {"0000:0a:00.0", "00000000:0A:00.0", "0:a:0.0", "0a:00.0", "0000:0a:00"})
    EXPECT_EQ(PciAddress::parse(text).value().to_string(), "0000:0a:00.0") << text;
  EXPECT_EQ(PciAddress::parse("00010000:FF:1F.7").value().to_string(), "10000:ff:1f.7");
  for (auto bad : {"", "0a", "0000:0a:20.0", "0000:0a:00.8", "0000:100:00.0", "000000000:0a:00.0", "0000:0a:00.", "0000::00.0",
                   "GPU-1", "0000:0a:00.0:1", "0000:-1:00.0"})
    EXPECT_FALSE(PciAddress::parse(bad)) << '"' << bad << '"';
}

TEST(PciAddress, OrdersAsTheMachineDoes) {
  EXPECT_LT(PciAddress::parse("0000:ff:00.0"), PciAddress::parse("0001:00:00.0"));
  EXPECT_LT(PciAddress::parse("0000:0a:00.0"), PciAddress::parse("0000:0a:00.1"));
}

template <class T>
void names_match(std::optional<T> (*parse)(std::string_view), std::initializer_list<T> values) {
  for (T value : values) EXPECT_EQ(parse(to_string(value)), value) << to_string(value);
  EXPECT_FALSE(parse("no-such-name"));
  EXPECT_FALSE(parse(""));
}

TEST(Names, OfEveryValueParseBack) {
  names_match(parse_vendor, {Vendor::nvidia, Vendor::amd, Vendor::intel});
  names_match(parse_health,
              {Health::ok, Health::lost, Health::reset_required, Health::driver_mismatch, Health::unreadable, Health::hung});
  names_match(parse_link_kind, {LinkKind::nvlink, LinkKind::nvswitch, LinkKind::xgmi, LinkKind::c2c, LinkKind::pix,
                                LinkKind::pxb, LinkKind::phb, LinkKind::node, LinkKind::sys});
  names_match(parse_process_kind,
              {GpuProcess::Kind::compute, GpuProcess::Kind::graphics, GpuProcess::Kind::both, GpuProcess::Kind::mps});
  names_match(parse_beside, {Beside::none, Beside::mine, Beside::any});
  names_match(parse_pick, {Pick::pack, Pick::first, Pick::last, Pick::random, Pick::load, Pick::memory});
}

Gpu gpu(std::string uuid) {
  Gpu result;
  result.uuid = std::move(uuid);
  result.model = "NVIDIA A100-SXM4-40GB";
  result.memory_mib = 40960;
  return result;
}

TEST(Gpu, IsClaimedByUuidElseByPciAddressAndPart) {
  EXPECT_EQ(gpu("GPU-1").key(), "GPU-1");
  Gpu nameless;
  nameless.pci = PciAddress::parse("0000:c1:00.0");
  EXPECT_EQ(nameless.key(), "pci-0000:c1:00.0.0");
  nameless.part = 3;
  EXPECT_EQ(nameless.key(), "pci-0000:c1:00.0.3");
}

TEST(LockName, CannotLeadOutOfItsDirectory) {
  EXPECT_EQ(lock_name("../../etc/passwd"), "-.:..:etc:passwd");
  EXPECT_EQ(lock_name("MIG-GPU-1/2/0"), "MIG-GPU-1:2:0");
  EXPECT_EQ(lock_name(std::string_view("a\0b\n", 4)), "a-b-");
  EXPECT_LE(lock_name(std::string(500, 'x')).size(), 96u);
}

TEST(Units, AreWholeGpusAndTheInstancesOfPartitionedOnes) {
  Machine machine;
  machine.gpus = {gpu("GPU-0"), gpu("GPU-1"), gpu("GPU-2"), gpu("GPU-3")};
  machine.gpus[1].mig_mode = true;
  machine.gpus[1].mig = {Instance{.uuid = "MIG-a", .profile = "3g.20gb", .memory_mib = 19968, .instance = {2, 0}, .use = {}},
                         Instance{.uuid = "", .profile = "1g.5gb", .memory_mib = 4864, .instance = {9, 0}, .use = {}}};
  machine.gpus[1].mig[0].use.memory_used_mib = std::uint64_t{7};
  machine.gpus[2].mig_mode = true;  // without instances: nothing to claim
  std::vector<Unit> all = units(machine);
  std::vector<std::string> labels, keys;
  for (const Unit& unit : all) labels.push_back(unit.label), keys.push_back(unit.key);
  EXPECT_EQ(labels, (std::vector<std::string>{"0", "1:0", "1:1", "3"}));
  EXPECT_EQ(keys, (std::vector<std::string>{"GPU-0", "MIG-a", "GPU-1.1", "GPU-3"}));
  EXPECT_EQ(all[1].model_of(machine), "NVIDIA A100-SXM4-40GB MIG 3g.20gb");
  EXPECT_EQ(all[1].memory_mib_of(machine), 19968u);
  EXPECT_EQ(all[1].use_of(machine).memory_used_mib, std::uint64_t{7});
  EXPECT_EQ(all[3].model_of(machine), "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(all[3].memory_mib_of(machine), 40960u);
}

TEST(Request, DescribesItselfInOneLine) {
  Request request;
  EXPECT_EQ(request.describe(), "1 GPU");
  request.gpus = 2;
  request.model = "A100";
  request.memory_mib = 20480;
  EXPECT_EQ(request.describe(), "2 A100, 20.0 GiB free");
  request.share = true;
  request.on = {"0", "1"};
  request.time = Seconds(1800);
  EXPECT_EQ(request.describe(), "2 A100 on 0,1, shared, 20.0 GiB each, for 30m");
}

}  // namespace
}  // namespace thole::model
