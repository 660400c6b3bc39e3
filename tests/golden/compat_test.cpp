// bind.mode compat against NVIDIA's gpu_affinity, through the reader of `thole plan --batch`. See gpu_affinity/README.md.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <set>

#include "model/json_plan.hpp"
#include "plan/bind/batch.hpp"
#include "test_folders.hpp"

namespace thole::test {
namespace {

using model::CpuSet;
using model::Json;

Json reference() {
  const std::string command = "gzip -dc '" THOLE_SOURCE_DIR "/tests/golden/gpu_affinity/gpu_affinity.json.gz'";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string text;
  char piece[65536];
  for (std::size_t got = 0; pipe && (got = std::fread(piece, 1, sizeof piece, pipe.get())) > 0;) text.append(piece, got);
  return model::parse_json(text, "gpu_affinity.json.gz");
}

model::Snapshot machine_of(const Json& topology) {
  Json machine{{"schema", model::machine_schema}, {"cpus", Json::array()}, {"gpus", Json::array()}};
  for (const Json& cpu : topology["cpus"])
    machine["cpus"].push_back({{"id", cpu[0]}, {"core", cpu[1]}, {"package", cpu[2]}, {"numa", cpu[3]}});
  for (const Json& gpu : topology["gpus"])
    machine["gpus"].push_back({{"uuid", "GPU-" + std::to_string(gpu["index"].get<int>())}, {"vendor", "nvidia"},
                               {"near_cpus", {{"node", gpu["node"]}, {"package", gpu["socket"]}}}});
  model::Snapshot snapshot;
  snapshot.machine = model::machine_from_json(machine);
  return snapshot;
}

struct Case {
  Json request;
  std::vector<std::string> expected;           // by rank
};

Case case_of(const Json& topology, const Json& row) {
  Json bind{{"mode", "compat"}, {"affinity", row[2]}, {"scope", row[3]}, {"smt", row[4] == "all_logical" ? "all" : "one"},
            {"balanced", row[5]}, {"min_cores", row[6]}, {"max_cores", row[7]}};
  Case one{{{"allowed", topology["cpusets"][row[0].get<std::size_t>()]["cpus"]}, {"ranks", row[1]}, {"bind", std::move(bind)}},
           {}};
  for (const Json& set : row[8]) one.expected.push_back(topology["sets"][set.get<std::size_t>()].get<std::string>());
  return one;
}

// Whether the original is right about single_unique: see README.
bool sound(const Case& one, const Json& topology) {
  const std::string scope = one.request["bind"]["scope"];
  for (std::size_t gpu = 0; gpu < one.expected.size(); ++gpu) {
    const std::string& set = one.expected[gpu];
    if (set == "!IndexError") return false;
    if (set[0] == '!') continue;
    const CpuSet near = *CpuSet::parse(topology["gpus"][gpu][scope].get<std::string>());
    if (!(*CpuSet::parse(set) - near).empty()) return false;
  }
  return true;
}

std::string told(const std::variant<model::PlanAnswer, model::PlanRefusal>& answer) {
  if (const auto* refusal = std::get_if<model::PlanRefusal>(&answer)) return "error: " + refusal->message;
  std::string text;
  for (const model::RankPlan& rank : std::get<model::PlanAnswer>(answer).ranks) text += rank.cpus.to_string() + " | ";
  return text;
}

std::string wanted(const Case& one) {
  std::string text;
  for (const std::string& set : one.expected) {
    if (set[0] == '!') return "error: ";
    text += CpuSet::parse(set)->to_string() + " | ";
  }
  return text;
}

TEST(Compat, EqualsTheOriginalOnEveryCaseThatItGetsRight) {
  const Json all = reference();
  std::size_t compared = 0, wrong = 0;
  for (const auto& [name, topology] : all["topologies"].items()) {
    if (topology["smt_max"] > 2 || topology["mask_truncated"] == true) continue;
    const model::Snapshot machine = machine_of(topology);
    for (const Json& row : topology["cases"]) {
      const Case one = case_of(topology, row);
      if (row[2] == "single_unique" && !sound(one, topology)) continue;
      ++compared;
      const std::string is = told(plan::answer(machine, model::plan_request_from_json(one.request))), should = wanted(one);
      const bool equal = should == "error: " ? is.starts_with(should) : is == should;
      if (!equal && ++wrong <= 5)
        ADD_FAILURE() << name << " " << one.request.dump() << "\n  is " << is << "\n  should be " << should;
    }
  }
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(compared, 42912u) << "the cases themselves have changed";
}

TEST(Compat, WithFourThreadsACoreKeepsCoresWholeApartAndNear) {
  const Json all = reference();
  std::size_t answered = 0;
  for (const auto& [name, topology] : all["topologies"].items()) {
    if (topology["smt_max"] <= 2) continue;
    const model::Snapshot machine = machine_of(topology);
    for (const Json& row : topology["cases"]) {
      const Case one = case_of(topology, row);
      const auto answer = plan::answer(machine, model::plan_request_from_json(one.request));
      const auto* plan = std::get_if<model::PlanAnswer>(&answer);
      if (!plan) continue;
      ++answered;
      const CpuSet allowed = *CpuSet::parse(one.request["allowed"].get<std::string>());
      const bool apart = row[2] != "all" && row[2] != "single";
      std::set<int> taken;
      for (const model::RankPlan& rank : plan->ranks) {
        const std::string scope = row[3];
        const CpuSet near = *CpuSet::parse(topology["gpus"][rank.gpus[0]][scope].get<std::string>());
        EXPECT_TRUE((rank.cpus - near).empty()) << one.request.dump();
        EXPECT_TRUE((rank.cpus - allowed).empty()) << one.request.dump();
        std::set<int> mine;
        for (const model::Cpu& cpu : machine.machine.cpus)
          if (rank.cpus.contains(cpu.id)) mine.insert(*cpu.core);
        for (const model::Cpu& cpu : machine.machine.cpus)
          if (row[4] == "all_logical" && mine.contains(*cpu.core) && allowed.contains(cpu.id)) {
            EXPECT_TRUE(rank.cpus.contains(cpu.id)) << "part of a core: " << one.request.dump();
          }
        for (const int core : mine) EXPECT_TRUE(taken.insert(core).second || !apart) << one.request.dump();
      }
    }
  }
  EXPECT_GT(answered, 2000u);
}

}  // namespace
}  // namespace thole::test
