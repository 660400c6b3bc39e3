#include "plan/place/select.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/machines.hpp"

namespace thole::test {
namespace {

// Two whole GPUs, one with two instances, one more whole GPU.
model::Snapshot mixed() {
  model::Snapshot snapshot = machine({"ab", "cd"});
  partition(snapshot, 2, {"3g.40gb", "3g.40gb"});
  return snapshot;
}

std::string words_of(const Error& error) {
  return std::string(name(error.code())) + ": " + error.full();
}

TEST(Resolve, EveryFormNamesItsUnits) {
  const model::Snapshot snapshot = mixed();
  const auto units = units_of(snapshot);
  struct Case { const char* word; const char* labels; };
  for (const Case& c : std::vector<Case>{{"0", "0"},
                                         {" 3 ", "3"},
                                         {"2:1", "2:1"},
                                         {"2", "2:0,2:1"},
                                         {"GPU-aaaaaaaa-0", "0"},
                                         {"gpu-b", "1"},
                                         {"bbb", "1"},
                                         {"GPU-cccc", "2:0,2:1"},
                                         {"MIG-ccccccc1-0", "2:1"},
                                         {"MIG-ccccccc1", "2:1"},
                                         {"MIG-GPU-cccccccc-0/2/0", "2:1"},
                                         {"0000:04:00.0", "3"},
                                         {"00000000:04:00.0", "3"},
                                         {"04:00.0", "3"}}) {
    EXPECT_EQ(labels(plan::resolve(c.word, snapshot, units), units), c.labels) << c.word;
  }
}

TEST(Resolve, MistakesNameWhatThereIs) {
  const model::Snapshot snapshot = mixed();
  const auto units = units_of(snapshot);
  struct Case { const char* word; const char* message; };
  for (const Case& c : std::vector<Case>{
           {"9", "usage: no such GPU: 9\n  this machine has GPUs 0 to 3; thole status --list names them"},
           {"2:7", "usage: GPU 2 has 2 instances: 2:7\n  thole status --list names them"},
           {"0:1", "usage: GPU 0 is not partitioned: 0:1\n  thole status --list names them"},
           {"GPU-aaaaaaab-0",
            "usage: no such GPU: GPU-aaaaaaab-0\n  did you mean GPU-aaaaaaaa-0? this machine has GPUs 0 to 3"},
           {"GPU-",
            "usage: it is the beginning of 4 names: GPU-\n  GPU-aaaaaaaa-0, GPU-bbbbbbbb-0, GPU-cccccccc-0, GPU-dddddddd-0"},
           {"MIG-cc", "usage: it is the beginning of 2 names: MIG-cc\n  MIG-ccccccc0-0, MIG-ccccccc1-0"},
           {"", "usage: an empty name names no GPU\n  a GPU is named by index, UUID or PCI address"},
           {"0000:44:00.0", "usage: no such GPU: 0000:44:00.0\n  did you mean 0000:04:00.0? this machine has GPUs 0 to 3"}}) {
    try {
      plan::resolve(c.word, snapshot, units);
      ADD_FAILURE() << c.word;
    } catch (const Error& error) {
      EXPECT_EQ(words_of(error), c.message) << c.word;
    }
  }
}

struct Asked {
  unsigned gpus = 1;
  std::vector<std::string> on = {}, not_on = {};
  std::string model = {};
  std::optional<std::uint64_t> memory_mib = {};
  bool share = false;
};

model::Request request(const Asked& asked) {
  model::Request request;
  request.gpus = asked.gpus;
  request.on = asked.on;
  request.not_on = asked.not_on;
  request.model = asked.model;
  request.memory_mib = asked.memory_mib;
  request.share = asked.share;
  return request;
}

std::string outcome(const model::Snapshot& snapshot, const Asked& asked, const plan::Environment& environment = {}) {
  const auto units = units_of(snapshot);
  try {
    const auto outer = plan::outer_allotment(snapshot, units, environment);
    const plan::Selection selection = plan::eligible(request(asked), snapshot, units, outer);
    return fmt::format("{} of {}", selection.count, labels(selection.units, units));
  } catch (const Error& error) {
    return words_of(error);
  }
}

TEST(Eligible, NarrowsByEveryWord) {
  model::Snapshot snapshot = mixed();
  snapshot.machine.gpus[3].model = "NVIDIA H100";
  snapshot.machine.gpus[3].memory_mib = 90000;
  struct Case { Asked asked; const char* outcome; };
  for (const Case& c : std::vector<Case>{
           {{.gpus = 1}, "1 of 0,1,2:0,2:1,3"},
           {{.gpus = 2}, "2 of 0,1,3"},
           {{.gpus = 0}, "0 of "},
           {{.gpus = 1, .on = {"0", "GPU-d"}}, "1 of 0,3"},
           {{.gpus = 1, .not_on = {"0", "2"}}, "1 of 1,3"},
           {{.gpus = 1, .model = "h100"}, "1 of 3"},
           {{.gpus = 1, .model = "3g.40gb"}, "1 of 2:0,2:1"},
           {{.gpus = 1, .memory_mib = 81920}, "1 of 0,1,3"},
           {{.gpus = 1, .memory_mib = 40960}, "1 of 0,1,2:0,2:1,3"},
           {{.gpus = 1, .memory_mib = 40960, .share = true}, "1 of 0,1,3"},
           {{.gpus = 1, .on = {"2:1"}}, "1 of 2:1"},
           {{.gpus = 1, .on = {"2"}}, "2 of 2:0,2:1"},
           {{.gpus = 2, .on = {"2", "0"}}, "3 of 0,2:0,2:1"},
           {{.gpus = 2, .on = {"2"}}, "2 of 2:0,2:1"}}) {
    EXPECT_EQ(outcome(snapshot, c.asked), c.outcome);
  }
}

// All of GPU 2's instances, or some, are not told: nothing is refused for ever that they might meet.
TEST(Eligible, RefusesNothingForEverWhereTheDriverHasNotToldAll) {
  const auto untold = [](model::Snapshot snapshot, std::size_t g) {
    model::Gpu& gpu = snapshot.machine.gpus[g];
    gpu.mig_mode = true;
    gpu.mig.clear();
    gpu.health = model::Health::unreadable;
    gpu.health_reason = "not all of its instances can be told";
    return snapshot;
  };
  const model::Snapshot two = untold(mixed(), 2), none = untold(machine({"a"}), 0);
  const std::string told = "\n  GPU 2: not all of its instances can be told\n  thole doctor";
  struct Case { const model::Snapshot* snapshot; Asked asked; plan::Environment environment; std::string message; };
  for (const Case& c : std::vector<Case>{
           {&none, {.gpus = 1}, {},
            "unavailable: 1 GPU asked for; too few are told of\n  GPU 0: not all of its instances can be told\n  thole doctor"},
           {&none, {.gpus = 1, .on = {"0:1"}}, {},
            "unavailable: 1 GPU asked for; too few are told of\n  GPU 0: not all of its instances can be told\n  thole doctor"},
           {&two, {.gpus = 4}, {}, "unavailable: 4 GPUs asked for; too few are told of" + told},
           {&two, {.gpus = 1, .not_on = {"0", "1", "3"}}, {}, "unavailable: 1 GPU asked for; too few are told of" + told},
           {&two, {.gpus = 1, .model = "3g.40gb"}, {}, "unavailable: 1 GPU asked for; too few are told of" + told},
           {&two, {.gpus = 1, .memory_mib = 90000}, {}, "unavailable: 1 GPU asked for; too few are told of" + told},
           {&two, {.gpus = 1}, {{"CUDA_VISIBLE_DEVICES", "MIG-ccccccc1-0"}},
            "unavailable: 1 GPU asked for; too few are told of" + told},
           {&two, {.gpus = 1, .on = {"MIG-ccccccc1-0"}}, {},
            "unavailable: not all of its instances can be told: MIG-ccccccc1-0\n  thole doctor"},
           {&two, {.gpus = 1, .on = {"GPU-ccc"}}, {},
            "unavailable: not all of its instances can be told: GPU-ccc\n  thole doctor"},
           {&two, {.gpus = 2, .on = {"1"}}, {}, "usage: 2 GPUs asked for; --on names 1\n  name more GPUs, or none"},
           {&two, {.gpus = 1}, {}, "1 of 0,1,3"}}) {
    EXPECT_EQ(outcome(*c.snapshot, c.asked, c.environment), c.message);
  }
}

TEST(Eligible, RefusalsSayWhatThereIs) {
  model::Snapshot eight = machine({"abcd", "efgh"});
  model::Snapshot parts = mixed();
  struct Case { const model::Snapshot* snapshot; Asked asked; plan::Environment environment; const char* message; };
  for (const Case& c : std::vector<Case>{
           {&eight, {.gpus = 9}, {}, "usage: 9 GPUs asked for; this machine has 8"},
           {&eight, {.gpus = 2, .on = {"1"}}, {}, "usage: 2 GPUs asked for; --on names 1\n  name more GPUs, or none"},
           {&eight, {.gpus = 8, .not_on = {"1"}}, {}, "usage: 8 GPUs asked for; --not leaves 7"},
           {&eight,
            {.gpus = 3},
            {{"CUDA_VISIBLE_DEVICES", "0,1"}},
            "usage: 3 GPUs asked for; CUDA_VISIBLE_DEVICES leaves 2 of the 8 that would do\n  thole claims within what was "
            "allotted, never outside it; if you set it yourself: unset CUDA_VISIBLE_DEVICES"},
           {&eight,
            {.gpus = 1},
            {{"CUDA_VISIBLE_DEVICES", ""}},
            "usage: 1 GPU asked for; CUDA_VISIBLE_DEVICES leaves 0 of the 8 that would do\n  thole claims within what was "
            "allotted, never outside it; if you set it yourself: unset CUDA_VISIBLE_DEVICES"},
           {&eight,
            {.gpus = 3},
            {{"SLURM_JOB_GPUS", "0,1"}},
            "usage: 3 GPUs asked for; SLURM_JOB_GPUS leaves 2 of the 8 that would do\n  thole claims within what was "
            "allotted, never outside it"},
           {&parts,
            {.gpus = 1, .on = {"2"}},
            {{"CUDA_VISIBLE_DEVICES", "MIG-ccccccc1-0"}},
            "usage: 1 GPU asked for; CUDA_VISIBLE_DEVICES leaves 1 of the 2 that would do\n  thole claims within what was "
            "allotted, never outside it; if you set it yourself: unset CUDA_VISIBLE_DEVICES"},
           {&eight,
            {.gpus = 1, .model = "H100"},
            {},
            "usage: no GPU that would do is of this model: H100\n  did you mean A100? here: NVIDIA A100-SXM4-80GB"},
           {&eight,
            {.gpus = 1, .memory_mib = 90000},
            {},
            "usage: 1 GPU asked for; 0 of those that would do have 87.9 GiB\n  the largest has 80.0 GiB"},
           {&eight,
            {.gpus = 1, .memory_mib = 81800, .share = true},
            {},
            "usage: 1 GPU asked for; 0 of those that would do have 79.9 GiB (and 512 MiB for its context)\n  the largest has "
            "80.0 GiB"},
           {&parts,
            {.gpus = 4},
            {},
            "usage: 4 GPUs asked for; 3 whole GPUs would do, and 2 MIG instances cannot be added\n"
            "  a process can use one MIG instance only: claim them one by one, with -g 1"},
           {&parts,
            {.gpus = 1, .on = {"2", "0"}},
            {},
            "usage: 1 GPU asked for; --on names 2, one of them partitioned\n"
            "  name its instances, such as 3:0, or ask for as many GPUs as --on names"}}) {
    EXPECT_EQ(outcome(*c.snapshot, c.asked, c.environment), c.message);
  }
}

TEST(Eligible, APartitionedGpuThatIsNamedIsTakenWholeOrNotAtAll) {
  model::Snapshot parts = mixed();
  model::Instance& second = parts.machine.gpus[2].mig.at(1);
  second.profile = "1g.10gb";
  second.memory_mib = 10000;
  EXPECT_EQ(outcome(parts, {.gpus = 1, .on = {"2"}, .memory_mib = 8000}), "2 of 2:0,2:1");
  EXPECT_EQ(outcome(parts, {.gpus = 1, .on = {"2"}, .memory_mib = 15360}),
            "usage: 1 GPU asked for; 1 of the 2 that --on names has 15.0 GiB\n  name what would do: --on 2:0");
  EXPECT_EQ(outcome(parts, {.gpus = 2, .on = {"0", "2"}, .memory_mib = 15360}),
            "usage: 2 GPUs asked for; 2 of the 3 that --on names have 15.0 GiB\n  name what would do: --on 0,2:0");
  EXPECT_EQ(outcome(parts, {.gpus = 1, .on = {"2"}, .model = "3g.40gb"}),
            "usage: 1 GPU asked for; 1 of the 2 that --on names is of model 3g.40gb\n  name what would do: --on 2:0");
  EXPECT_EQ(outcome(parts, {.gpus = 1, .on = {"2:0", "2:1"}, .memory_mib = 15360}), "1 of 2:0");
}

TEST(Eligible, WithoutAGpuTheDriverIsNamed) {
  model::Snapshot none = machine({});
  EXPECT_EQ(outcome(none, {.gpus = 1}),
            "usage: 1 GPU asked for; this machine has none\n  try a simulated machine: --machine dgx-a100");
  none.observations[0].problem = "library and kernel module differ";
  EXPECT_EQ(outcome(none, {.gpus = 1}), "unavailable: no GPU can be used: library and kernel module differ");
}

// --- The outer allotment ---

struct Allotted {
  const char* rule;
  plan::Environment environment;
  const char* visible;
  const char* named_by;
  const char* caution = "";
};

void check(const model::Snapshot& snapshot, const std::vector<Allotted>& cases) {
  const auto units = units_of(snapshot);
  for (const Allotted& c : cases) {
    const plan::Outer outer = plan::outer_allotment(snapshot, units, c.environment);
    std::vector<std::size_t> visible;
    for (std::size_t i = 0; i < units.size(); ++i)
      if (outer.visible[i]) visible.push_back(i);
    EXPECT_EQ(labels(visible, units), c.visible) << c.rule;
    EXPECT_EQ(outer.named_by, c.named_by) << c.rule;
    EXPECT_EQ(join(outer.cautions, "|"), c.caution) << c.rule;
  }
}

Allotted cuda(const char* rule, const char* value, const char* visible, const char* caution = "") {
  return {rule,
          {{"CUDA_VISIBLE_DEVICES", value}},
          visible,
          std::string_view(visible) == "0,1,2,3" ? "" : "CUDA_VISIBLE_DEVICES",
          caution};
}

TEST(Outer, CudaVisibleDevicesByCudasRules) {
  check(
      machine({"ab", "cd"}),
      {{"unset", {}, "0,1,2,3", ""},
       cuda("empty is none", "", ""),
       cuda("indices", "2,0", "0,2"),
       cuda("all of them narrow nothing", "3,2,1,0", "0,1,2,3"),
       cuda("UUIDs, whole and by their beginning", "GPU-aaaaaaaa-0,GPU-d", "0,3"),
       cuda("stops at the first invalid", "0,2,-1,1", "0,2",
            "CUDA_VISIBLE_DEVICES names \"-1\", which is no GPU of this machine; CUDA ignores it and what follows it"),
       cuda("too large is invalid", "1,9,0", "1",
            "CUDA_VISIBLE_DEVICES names \"9\", which is no GPU of this machine; CUDA ignores it and what follows it"),
       cuda("duplicates give none", "0,0", "", "CUDA_VISIBLE_DEVICES names \"0\" twice; CUDA then shows no GPU at all"),
       cuda("as atoi reads it", "1abc, 2", "1,2"),
       cuda("an empty entry", "1,,2", "1",
            "CUDA_VISIBLE_DEVICES names an empty entry, which is no GPU of this machine; CUDA ignores it and what follows it"),
       cuda("forms do not mix", "0,GPU-bbbbbbbb-0", "0",
            "CUDA_VISIBLE_DEVICES mixes numbers and UUIDs; CUDA ignores it and what follows it"),
       cuda("an ambiguous beginning", "GPU-", "",
            "CUDA_VISIBLE_DEVICES names \"GPU-\", which is no GPU of this machine; CUDA ignores it and what follows it"),
       cuda("Slurm's way to say none", "NoDevFiles", "",
            "CUDA_VISIBLE_DEVICES names \"NoDevFiles\", which is no GPU of this machine; CUDA ignores it and what follows it"),
       cuda("a number that is no number", "99999999999999999999", "",
            "CUDA_VISIBLE_DEVICES names \"99999999999999999999\", which is no GPU of this machine; CUDA ignores it and what "
            "follows it")});
}

TEST(Outer, NumbersAreInCudasOrderUnlessToldOtherwise) {
  model::Snapshot snapshot = machine({"abcd"});
  snapshot.machine.gpus[0].cuda_index = 3;
  snapshot.machine.gpus[3].cuda_index = 0;
  check(snapshot,
        {{"fastest first", {{"CUDA_VISIBLE_DEVICES", "0"}}, "3", "CUDA_VISIBLE_DEVICES"},
         {"PCI order", {{"CUDA_VISIBLE_DEVICES", "0"}, {"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}, "0", "CUDA_VISIBLE_DEVICES"},
         {"the same number where they agree", {{"CUDA_VISIBLE_DEVICES", "1"}}, "1", "CUDA_VISIBLE_DEVICES"}});
}

TEST(Outer, MigHidesWholeGpus) {
  check(mixed(), {{"by UUID", {{"CUDA_VISIBLE_DEVICES", "MIG-ccccccc1-0"}}, "2:1", "CUDA_VISIBLE_DEVICES"},
                  {"by the old name", {{"CUDA_VISIBLE_DEVICES", "MIG-GPU-cccccccc-0/1/0"}}, "2:0", "CUDA_VISIBLE_DEVICES"},
                  {"all that are named are allotted",
                   {{"CUDA_VISIBLE_DEVICES", "MIG-ccccccc0-0,MIG-ccccccc1-0"}},
                   "2:0,2:1",
                   "CUDA_VISIBLE_DEVICES"},
                  {"a partitioned GPU is its first instance", {{"CUDA_VISIBLE_DEVICES", "0,2"}}, "2:0", "CUDA_VISIBLE_DEVICES"},
                  {"whole ones alone", {{"CUDA_VISIBLE_DEVICES", "0,3"}}, "0,3", "CUDA_VISIBLE_DEVICES"}});
}

TEST(Outer, MasksAreCombinedByAnd) {
  model::Snapshot snapshot = machine({"ab", "cd"});
  snapshot.machine.outer.visible_devices = "0,1,2";
  check(snapshot, {{"the machine's own", {}, "0,1,2", "the machine's outer.visible_devices"},
                   {"and the variable",
                    {{"CUDA_VISIBLE_DEVICES", "2,3"}},
                    "2",
                    "the machine's outer.visible_devices and CUDA_VISIBLE_DEVICES"}});
}

TEST(Outer, EnginesLists) {
  check(machine({"ab", "cd"}),
        {{"Slurm's job", {{"SLURM_JOB_GPUS", "1,2"}}, "1,2", "SLURM_JOB_GPUS"},
         {"its step is within it", {{"SLURM_JOB_GPUS", "1,2"}, {"SLURM_STEP_GPUS", "2"}}, "2", "SLURM_STEP_GPUS"},
         {"as many as there are: a cgroup shows them",
          {{"SLURM_JOB_GPUS", "4,5,6,7"}, {"CUDA_VISIBLE_DEVICES", "0,1,2,3"}},
          "0,1,2,3",
          ""},
         {"Slurm and a narrower variable",
          {{"SLURM_JOB_GPUS", "1,2"}, {"CUDA_VISIBLE_DEVICES", "2"}},
          "2",
          "CUDA_VISIBLE_DEVICES"},
         {"a variable that reaches outside",
          {{"SLURM_JOB_GPUS", "1,2"}, {"CUDA_VISIBLE_DEVICES", "3"}},
          "",
          "CUDA_VISIBLE_DEVICES and SLURM_JOB_GPUS"},
         {"Grid Engine's map", {{"SGE_HGR_gpu", "gpu0 gpu3"}}, "0,3", "SGE_HGR_gpu"},
         {"whatever the site calls it", {{"SGE_HGR_m_gpu_card", "1"}}, "1", "SGE_HGR_m_gpu_card"},
         {"another resource", {{"SGE_HGR_licence", "1"}}, "0,1,2,3", ""},
         {"PBS", {{"PBS_GPUFILE", "gpu1,gpu2"}}, "1,2", "PBS_GPUFILE"},
         {"PBS, with GPUs elsewhere only", {{"PBS_GPUFILE", "none"}}, "", "PBS_GPUFILE"},
         {"PBS and a variable that reaches outside",
          {{"PBS_GPUFILE", "gpu1"}, {"CUDA_VISIBLE_DEVICES", "1,2"}},
          "1",
          "CUDA_VISIBLE_DEVICES and PBS_GPUFILE"},
         {"PBS, unread",
          {{"PBS_GPUFILE", "/var/spool/pbs/aux/12gpu"}},
          "0,1,2,3",
          "",
          "PBS_GPUFILE could not be read, so it narrows nothing"},
         {"NVIDIA_VISIBLE_DEVICES is the runtime's", {{"NVIDIA_VISIBLE_DEVICES", "0"}}, "0,1,2,3", ""}});
}

TEST(Outer, OfAGpuFileTheLinesOfThisHostCount) {
  struct Row { const char* text; const char* host; const char* here; };
  for (const Row& row : {Row{"node1-gpu1\nnode1-gpu2\n", "node1", "gpu1,gpu2"},
                         Row{"node1-gpu0\nnode2-gpu3\n", "node2", "gpu3"},
                         Row{"node1.cluster.edu-gpu0\n", "node1", "gpu0"},
                         Row{"Node1-gpu0\r\n", "node1.cluster.edu", "gpu0"},
                         Row{"gpu-node-1-gpu2\n", "gpu-node-1", "gpu2"},
                         Row{"node10-gpu0\n", "node1", "none"},
                         Row{"3\n", "node1", "3"},
                         Row{"", "node1", ""},
                         Row{"-", "node1", "none"}})
    EXPECT_EQ(plan::gpus_of_host(row.text, row.host), row.here) << row.text << " on " << row.host;
}

TEST(Outer, AmdLayersCompose) {
  model::Snapshot snapshot = machine({"abcd"});
  for (model::Gpu& gpu : snapshot.machine.gpus) gpu.vendor = model::Vendor::amd;
  check(snapshot,
        {{"ROCr", {{"ROCR_VISIBLE_DEVICES", "1,GPU-dddddddd-0"}}, "1,3", "ROCR_VISIBLE_DEVICES"},
         {"HIP counts what ROCr left",
          {{"ROCR_VISIBLE_DEVICES", "1,3"}, {"HIP_VISIBLE_DEVICES", "1"}},
          "3",
          "ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES"},
         {"HIP takes CUDA's for its own", {{"CUDA_VISIBLE_DEVICES", "2"}}, "2", "CUDA_VISIBLE_DEVICES"},
         {"but not beside its own", {{"CUDA_VISIBLE_DEVICES", "2"}, {"HIP_VISIBLE_DEVICES", "1"}}, "1", "HIP_VISIBLE_DEVICES"},
         {"an engine writes one list into all",
          {{"ROCR_VISIBLE_DEVICES", "2,3"}, {"GPU_DEVICE_ORDINAL", "2,3"}, {"CUDA_VISIBLE_DEVICES", "2,3"}},
          "2,3",
          "ROCR_VISIBLE_DEVICES"},
         {"empty", {{"ROCR_VISIBLE_DEVICES", ""}}, "", "ROCR_VISIBLE_DEVICES"},
         {"what ROCr does not leave",
          {{"ROCR_VISIBLE_DEVICES", "1"}, {"HIP_VISIBLE_DEVICES", "1"}},
          "",
          "ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES",
          "HIP_VISIBLE_DEVICES names \"1\", which is no GPU it can choose from"}});
}

TEST(Outer, IntelMasksByHierarchy) {
  model::Snapshot snapshot = machine({"ab"});
  for (std::size_t i = 0; i < 2; ++i) {
    partition(snapshot, i, {"tile", "tile"});
    snapshot.machine.gpus[i].vendor = model::Vendor::intel;
  }
  const plan::Environment composite{{"ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE"}};
  const auto mask = [](plan::Environment environment, const char* value) {
    environment["ZE_AFFINITY_MASK"] = value;
    return environment;
  };
  check(snapshot, {{"flat counts tiles", mask({}, "0,3"), "0:0,1:1", "ZE_AFFINITY_MASK"},
                   {"cards", mask(composite, "1"), "1:0,1:1", "ZE_AFFINITY_MASK"},
                   {"tiles of cards", mask(composite, "0.1,1.0"), "0:1,1:0", "ZE_AFFINITY_MASK"},
                   {"one bad entry leaves nothing", mask({}, "0,7"), "", "ZE_AFFINITY_MASK",
                    "ZE_AFFINITY_MASK names \"7\", which is no device here; the driver then shows none"},
                   {"dots are not flat", mask({}, "0.1"), "", "ZE_AFFINITY_MASK",
                    "ZE_AFFINITY_MASK names \"0.1\", which is no device here; the driver then shows none"}});
}

}  // namespace
}  // namespace thole::test
