#include "plan/environment/environment.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/machines.hpp"

namespace thole::test {
namespace {

using plan::Ids;
using model::Vendor;

// The variables as lines, without the two that every claim has; unset ones as "-NAME".
std::string written(const model::Snapshot& snapshot, std::vector<std::size_t> chosen, Ids ids = Ids::automatic,
                    bool certain = true, const model::Request& request = {}) {
  const plan::Variables variables =
      plan::environment(chosen, units_of(snapshot), snapshot, request, ids, certain, "0123456789abcdef");
  EXPECT_EQ(variables.set.at("THOLE_CLAIM"), "0123456789abcdef");
  EXPECT_EQ(variables.set.at("CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
  std::string text;
  for (const auto& [name, value] : variables.set)
    if (name != "THOLE_CLAIM" && name != "THOLE_GPUS" && name != "CUDA_DEVICE_ORDER") text += name + "=" + value + " ";
  for (const std::string& name : variables.unset) text += "-" + name + " ";
  return text.empty() ? text : text.substr(0, text.size() - 1);
}

TEST(Environment, CudaByNumberWhenCertainElseByUuid) {
  const model::Snapshot snapshot = machine({"ab", "cd"});
  EXPECT_EQ(written(snapshot, {1, 3}), "CUDA_VISIBLE_DEVICES=1,3");
  EXPECT_EQ(written(snapshot, {1, 3}, Ids::automatic, false), "CUDA_VISIBLE_DEVICES=GPU-bbbbbbbb-0,GPU-dddddddd-0");
  EXPECT_EQ(written(snapshot, {1}, Ids::uuid), "CUDA_VISIBLE_DEVICES=GPU-bbbbbbbb-0");
  EXPECT_EQ(written(snapshot, {1}, Ids::index, false), "CUDA_VISIBLE_DEVICES=1");
}

TEST(Environment, AGpuWithoutAUuidGoesByNumber) {
  model::Snapshot snapshot = machine({"ab"});
  snapshot.machine.gpus[1].uuid.clear();
  EXPECT_EQ(written(snapshot, {1}, Ids::uuid), "CUDA_VISIBLE_DEVICES=1");
}

TEST(Environment, AnInstanceGoesByItsUuidOnly) {
  model::Snapshot snapshot = machine({"ab"});
  partition(snapshot, 0, {"3g.40gb", "3g.40gb"});
  EXPECT_EQ(written(snapshot, {1}), "CUDA_VISIBLE_DEVICES=MIG-aaaaaaa1-0");
  EXPECT_EQ(written(snapshot, {0, 1}), "CUDA_VISIBLE_DEVICES=MIG-aaaaaaa0-0,MIG-aaaaaaa1-0");
  EXPECT_EQ(written(snapshot, {2}), "CUDA_VISIBLE_DEVICES=1") << "a partitioned GPU counts once in CUDA's numbering";
  EXPECT_THROW(written(snapshot, {0}, Ids::index), Error);
}

TEST(Environment, NumbersCountOneVendorOnly) {
  model::Snapshot snapshot = machine({"abc"});
  snapshot.machine.gpus[0].vendor = Vendor::amd;
  EXPECT_EQ(written(snapshot, {2}), "CUDA_VISIBLE_DEVICES=1 ROCR_VISIBLE_DEVICES= -GPU_DEVICE_ORDINAL -HIP_VISIBLE_DEVICES");
  EXPECT_EQ(written(snapshot, {0}), "CUDA_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES=0 ROCR_VISIBLE_DEVICES=0 -GPU_DEVICE_ORDINAL");
}

TEST(Environment, AmdByRocrAloneTheOthersUnset) {
  model::Snapshot snapshot = machine({"abc"});
  const char* unset = " -GPU_DEVICE_ORDINAL -HIP_VISIBLE_DEVICES -CUDA_VISIBLE_DEVICES";
  for (model::Gpu& gpu : snapshot.machine.gpus) gpu.vendor = Vendor::amd;
  EXPECT_EQ(written(snapshot, {0, 2}), std::string("ROCR_VISIBLE_DEVICES=0,2") + unset) << "no unique id that ROCr would know";
  for (std::size_t i = 0; i < 3; ++i) snapshot.machine.gpus[i].uuid = fmt::format("GPU-00112233445566{:02x}", i);
  EXPECT_EQ(written(snapshot, {0, 2}), std::string("ROCR_VISIBLE_DEVICES=GPU-0011223344556600,GPU-0011223344556602") + unset);
  EXPECT_EQ(written(snapshot, {0, 2}, Ids::index), std::string("ROCR_VISIBLE_DEVICES=0,2") + unset);
}

TEST(Environment, IntelFlatInPciOrder) {
  model::Snapshot snapshot = machine({"ab"});
  partition(snapshot, 0, {"tile", "tile"});
  for (model::Gpu& gpu : snapshot.machine.gpus) gpu.vendor = Vendor::intel;
  EXPECT_EQ(written(snapshot, {1, 2}), "ZE_AFFINITY_MASK=1,2 ZE_ENABLE_PCI_ID_DEVICE_ORDER=1 ZE_FLAT_DEVICE_HIERARCHY=FLAT");
}

TEST(Environment, ALastingNameIsAUuidThatTheRuntimeKnows) {
  model::Snapshot snapshot = machine({"abcdef"});
  const auto lasts = [&](std::vector<std::size_t> chosen) {
    return plan::have_lasting_names(chosen, units_of(snapshot), snapshot.machine);
  };
  auto& gpus = snapshot.machine.gpus;
  gpus[1].uuid.clear();
  for (const std::size_t amd : {2, 3, 4}) gpus[amd].vendor = Vendor::amd;
  gpus[2].uuid = gpus[3].uuid = "GPU-0011223344556600";
  gpus[3].part = 1;
  gpus[5].vendor = Vendor::intel;
  EXPECT_TRUE(lasts({0, 2}));
  EXPECT_TRUE(lasts({}));
  EXPECT_FALSE(lasts({0, 1})) << "NVIDIA's, without a UUID";
  EXPECT_FALSE(lasts({2, 3})) << "a partition has its card's unique id";
  EXPECT_FALSE(lasts({4})) << "no unique id";
  EXPECT_FALSE(lasts({0, 5})) << "Level Zero knows numbers only";
}

TEST(Environment, NoGpuMeansNoneOfAnyKind) {
  EXPECT_EQ(written(machine({"ab"}), {}),
            "CUDA_VISIBLE_DEVICES= ROCR_VISIBLE_DEVICES= ZE_AFFINITY_MASK= ZE_ENABLE_PCI_ID_DEVICE_ORDER=1 "
            "ZE_FLAT_DEVICE_HIERARCHY=FLAT -GPU_DEVICE_ORDINAL -HIP_VISIBLE_DEVICES");
}

TEST(Environment, SharersAreAdvised) {
  model::Request request;
  request.share = true;
  request.memory_mib = 8192;
  EXPECT_EQ(written(machine({"a"}), {0}, Ids::automatic, true, request),
            "CUDA_VISIBLE_DEVICES=0 TF_FORCE_GPU_ALLOW_GROWTH=true XLA_PYTHON_CLIENT_MEM_FRACTION=0.100");
}

TEST(Environment, TholeGpusIsJson) {
  model::Snapshot snapshot = machine({"ab"});
  partition(snapshot, 1, {"3g.40gb"});
  const auto gpus = [&](std::vector<std::size_t> chosen) {
    return plan::environment(chosen, units_of(snapshot), snapshot, {}, Ids::automatic, true, "x").set.at("THOLE_GPUS");
  };
  EXPECT_EQ(
      gpus({0}),
      R"([{"key":"GPU-aaaaaaaa-0","uuid":"GPU-aaaaaaaa-0","pci":"0000:01:00.0","index":0,"listed_as":"0","vendor":"nvidia",)"
      R"("model":"NVIDIA A100-SXM4-80GB","memory_mib":81920}])");
  EXPECT_EQ(
      gpus({1}),
      R"([{"key":"MIG-bbbbbbb0-0","uuid":"MIG-bbbbbbb0-0","pci":"0000:02:00.0","index":1,"listed_as":"MIG-bbbbbbb0-0",)"
      R"("instance":0,"parent":"GPU-bbbbbbbb-0","vendor":"nvidia","model":"NVIDIA A100-SXM4-80GB MIG 3g.40gb",)"
      R"("memory_mib":40960}])");
  EXPECT_EQ(gpus({}), "[]");
}

TEST(Environment, IdsAreParsedStrictly) {
  EXPECT_EQ(plan::parse_ids("auto"), Ids::automatic);
  EXPECT_EQ(plan::parse_ids("uuid"), Ids::uuid);
  EXPECT_EQ(plan::parse_ids("index"), Ids::index);
  EXPECT_EQ(plan::parse_ids("AUTO"), std::nullopt);
}

}  // namespace
}  // namespace thole::test
