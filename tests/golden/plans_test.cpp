// What thole plans on real machines, one file a machine, to be read by people.
#include <gtest/gtest.h>

#include "base/text.hpp"
#include "host/gpu/file/machine_file.hpp"
#include "model/json_plan.hpp"
#include "plan/bind/batch.hpp"
#include "support/golden.hpp"
#include "support/real_machines.hpp"
#include "test_folders.hpp"

namespace thole {
namespace {

// Where the machine comes from, and what is worth looking at. Of "derived" ones tests/topologies/derived/make.py says what was
// measured and what is assumed.
struct Planned {
  const char* file;      // of tests/golden/plans
  const char* machine;   // of real_machines(), "shipped/NAME" or "derived/NAME"
  const char* about;
};
const Planned planned[] = {
    {"dgx1-volta", "shipped/dgx1v", "DGX-1: hybrid cube mesh of NVLinks, two memory nodes"},
    {"dgx-a100", "shipped/dgx-a100", "DGX A100: four of eight memory nodes have no GPU"},
    {"hgx-h200-snc2", "derived/hgx-h200-snc2", "HGX H200 with SNC2: 3, 1, 3 and 1 GPUs on four nodes"},
    {"mi250x-tioga", "mpibind/eas-tioga", "MI250X: eight GPUs, each near one L3 cache; two caches a node"},
    {"power9-lassen", "mpibind/coral-lassen-hwloc1", "POWER9: four threads a core, nodes 252 to 255 are GPU memory"},
    {"power8-coral-ea", "mpibind/coral-ea-hwloc1", "POWER8: eight threads a core"},
    {"turin-nps4", "prrte/turin-4gpu-nvml", "two EPYC Turin with NPS4: GPUs on nodes 1, 2, 6 and 7"},
    {"gb200-tray", "derived/gb200-tray", "GB200: no SMT, 32 memory nodes without CPUs"},
    {"pcie-6-2", "derived/pcie-6-2", "six GPUs on one node and two on the other, PCIe only"},
    {"hybrid-workstation", "derived/hybrid-workstation", "cores of two kinds, two GPUs, one with the display"},
    {"vm-unknown-node", "derived/vm-unknown-node", "a virtual machine that names no node for its GPUs"},
    {"pascal-one-socket", "mpibind/cts1-pascal", "two packages, both GPUs on the first"},
    {"corona-nps4", "mpibind/epyc-corona", "GPUs on nodes 1, 2, 5 and 7 of eight"},
    {"g4dn-metal", "mpibind/g4dnmetal", "eight T4, four on each package, no fast links"},
    {"thunderx2", "mpibind/arm64-ulna-hwloc1", "ThunderX2: four threads a core, two GPUs, four NICs"},
    {"mi300x-rccl", "rccl/topo_8p_940", "MI300X with a NIC at each GPU; cores are not known"},
    {"5gpu-workstation", "nvsmi/5gpu-workstation", "one GPU on the second node, known from a topo -m table alone"},
};

// As `thole plan --batch` takes them; @n the number of GPUs, @h half of it, @2 twice, @near what is near GPU 0.
struct Question {
  const char* title;
  const char* request;
};
const Question questions[] = {
    {"one GPU for a command", R"({"gpus": 1})"},
    {"half of the GPUs for a command", R"({"gpus": @h})"},
    {"a rank on every GPU, as thole starts them", R"({"gpus": @n, "ranks": @n, "bind": {"mode": "exclusive", "lend": true}})"},
    {"the same without lending, equal counts", R"({"gpus": @n, "ranks": @n, "bind": {"mode": "exclusive", "balanced": true}})"},
    {"two ranks on every GPU, one thread a core", R"({"gpus": @n, "ranks": @2, "bind": {"mode": "exclusive", "smt": "one"}})"},
    {"a cache each, the first core of every cache kept free",
     R"({"gpus": @n, "ranks": @n, "bind": {"mode": "l3", "reserve": "first-of-l3"}})"},
    {"inside a cpuset of what is near GPU 0",
     R"({"allowed": "@near", "gpus": @n, "ranks": @n, "bind": {"mode": "exclusive"}})"},
    {"the same, strictly", R"({"allowed": "@near", "gpus": @n, "ranks": @n, "bind": {"mode": "exclusive", "strict": true}})"},
    {"as gpu_affinity does", R"({"ranks": @n, "bind": {"mode": "compat", "affinity": "unique_contiguous", "scope": "node"}})"},
};

model::Machine machine_of(const std::string& name) {
  if (!name.starts_with("shipped/") && !name.starts_with("derived/")) return test::real_machines().at(name);
  const std::string base = name.substr(8) + ".json";
  const std::string folder = name.starts_with("shipped/") ? "/machines/" : "/tests/topologies/derived/";
  host::MachineFile file(THOLE_SOURCE_DIR + folder + base, {});
  return file.around(file.read(Millis(0)).gpus, Millis(0));
}

std::string filled_in(std::string request, const model::Machine& machine) {
  const std::size_t n = machine.gpus.size();
  const std::string near = machine.gpus.at(0).near_cpus.node.value_or(model::CpuSet()).to_string();
  for (const auto& [mark, value] : {std::pair<std::string, std::string>{"@near", near}, {"@n", std::to_string(n)},
                                    {"@h", std::to_string(n / 2)}, {"@2", std::to_string(2 * n)}})
    for (auto at = request.find(mark); at != request.npos; at = request.find(mark)) request.replace(at, mark.size(), value);
  return request;
}

std::string numbers(const std::vector<std::size_t>& values) {
  std::vector<std::string> words;
  for (std::size_t value : values) words.push_back(std::to_string(value));
  return join(words, ",");
}

std::string show(const model::RankPlan& rank) {
  std::string text = fmt::format("    rank {}: GPU {} ", rank.rank, numbers(rank.gpus));
  text += rank.bound ? fmt::format("CPUs {} ({} cores)", rank.cpus.to_string(), rank.cores) : "not bound";
  if (rank.degraded) text += " DEGRADED";
  if (!rank.nics.empty()) text += " NIC " + join(rank.nics, ",");
  return text + fmt::format("\n      {}\n", rank.why);
}

std::string show(const model::Machine& machine, const Planned& about) {
  std::string text =
      fmt::format("{}\n{}; {} CPUs, {} GPUs\n", about.about, about.machine, machine.cpus.size(), machine.gpus.size());
  model::Snapshot snapshot;
  snapshot.machine = machine;
  for (const Question& question : questions) {
    const std::string line = filled_in(question.request, machine);
    text += fmt::format("\n{}\n  {}\n", question.title, line);
    const auto answer = plan::answer(snapshot, model::plan_request_from_json(model::parse_json(line, "the question")));
    if (const auto* refusal = std::get_if<model::PlanRefusal>(&answer)) {
      text +=
          fmt::format("  refused: {}{}\n", refusal->message, refusal->rank ? fmt::format(" (rank {})", *refusal->rank) : "");
      continue;
    }
    const auto& plan = std::get<model::PlanAnswer>(answer);
    text += fmt::format("  GPUs {}, score {}{}: {}\n", numbers(plan.gpus), plan.score, plan.exact ? "" : ", not exact",
                        plan.explain);
    for (const model::RankPlan& rank : plan.ranks) text += show(rank);
  }
  return text;
}

TEST(Plans, OnRealMachinesAreAsRecorded) {
  for (const Planned& each : planned) {
    SCOPED_TRACE(each.file);
    const std::string now = show(machine_of(each.machine), each);
    test::expect_as_recorded(fmt::format("plans/{}.txt", each.file), now);
  }
}

}  // namespace
}  // namespace thole
