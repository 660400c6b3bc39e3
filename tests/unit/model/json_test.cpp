#include "model/json.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "base/error.hpp"

namespace thole::model {
namespace {

Machine machine(const std::string& text) { return machine_from_json(parse_json(text, "m.json"), "m.json"); }

// A machine with one GPU that has this member besides a uuid and a vendor.
Machine with_gpu(const std::string& member) {
  return machine(R"({"schema": "thole/machine/1", "gpus": [{"uuid": "GPU-1", "vendor": "nvidia", )" + member + "}]}");
}

std::string complaint(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    EXPECT_EQ(error.object(), "m.json");
    return error.what();
  }
  return "no complaint";
}

TEST(Json, SaysWhereTextIsNoJson) {
  EXPECT_EQ(
      complaint([] { parse_json("{\n  \"a\": 1,\n  \"b\" 2}", "m.json"); }),
      "not JSON at line 3, column 7: syntax error while parsing object separator - unexpected number literal; expected ':'");
  EXPECT_NE(complaint([] { parse_json("", "m.json"); }).find("line 1, column 1"), std::string::npos);
  EXPECT_NE(complaint([] { parse_json("[1e999]", "m.json"); }).find("not"), std::string::npos);
  EXPECT_NE(complaint([] { parse_json("\"\xff\"", "m.json"); }).find("UTF-8"), std::string::npos);
}

TEST(Json, AllowsComments) { EXPECT_EQ(parse_json("// mine\n{\"a\": 1 /* one */}", "m.json")["a"], 1); }

TEST(Json, NamesEveryMistakeByItsPath) {
  struct { const char* member; const char* complaint;
  } const cases[] = {
      {R"("memory_mib": "8G")", "gpus[0].memory_mib: expected a whole number, 0 or more; null when it is unknown"},
      {R"("memory_mib": -1)", "gpus[0].memory_mib: expected a whole number, 0 or more; null when it is unknown"},
      {R"("memory_mib": 1.5)", "gpus[0].memory_mib: expected a whole number, 0 or more; null when it is unknown"},
      {R"("memory_mib": 18446744073709551615)", "gpus[0].memory_mib: 18446744073709551615 is too large, at most 8796093022208"},
      {R"("pci": "07:zz")", "gpus[0].pci: \"07:zz\" is not a PCI address such as \"0000:07:00.0\""},
      {R"("health": "fine")",
       "gpus[0].health: \"fine\" is not one of ok, lost, reset-required, driver-mismatch, unreadable, hung"},
      {R"("near_cpus": {"node": "0-"})", "gpus[0].near_cpus.node: \"0-\" is not a CPU list such as \"0-3,16-19\""},
      {R"("near_cpus": 3)", "gpus[0].near_cpus: expected an object {…}"},
      {R"("links": [{"to": "0000:01:00.0", "kind": "nvlinc"}])",
       "gpus[0].links[0].kind: \"nvlinc\" is not one of nvlink, nvswitch, xgmi, c2c, pix, pxb, phb, node, sys"},
      {R"("links": {})", "gpus[0].links: expected a list […]"},
      {R"("use": {"temperature_c": -3})", "gpus[0].use.temperature_c: must not be negative; null when it is unknown"},
      {R"("use": {"processes": [{"pid": 1}, {"pid": 0}]})", "gpus[0].use.processes[1].pid: a process id is at least 1"},
      {R"("use": {"processes": [{"pid": 1, "watch": "yes"}]})", "gpus[0].use.processes[0].watch: expected true or false"},
      {R"("use": {"errors": []})", "gpus[0].use.errors: expected an object {…}"},
      {R"("mig": [{"instance": [1]}])", "gpus[0].mig[0].instance: expected two numbers: GPU instance and compute instance"},
      {R"("mig": [{"uuid": "a b"}])", "gpus[0].mig[0].uuid: an identity is up to 96 letters, digits and . _ : / -"},
  };
  for (auto [member, wanted] : cases) EXPECT_EQ(complaint([&] { with_gpu(member); }), wanted);
}

TEST(Json, RefusesWhatIsNoMachine) {
  EXPECT_EQ(complaint([] { machine("[]"); }), "expected an object {\"schema\": \"thole/machine/1\", …}");
  EXPECT_EQ(complaint([] { machine("{}"); }),
            "\"schema\" is missing; a machine file begins {\"schema\": \"thole/machine/1\", …");
  EXPECT_EQ(complaint([] { machine(R"({"schema": "thole/machine/2"})"); }),
            "schema: \"thole/machine/2\" is not \"thole/machine/1\", which this thole reads");
  EXPECT_EQ(complaint([] { machine(R"({"schema": "thole/machine/1", "gpus": [{"vendor": "amd"}]})"); }),
            "gpus[0]: a GPU needs a \"uuid\" or a \"pci\" address: it is claimed by it");
}

TEST(Json, WantsGpusInPciOrderAndEachOnce) {
  EXPECT_EQ(
      complaint([] {
        machine(
            R"({"schema": "thole/machine/1", "gpus": [{"vendor": "amd", "pci": "02:00.0"}, )"
            R"({"vendor": "amd", "pci": "01:00.0"}]})");
      }),
      "gpus: GPU 1 (0000:01:00.0) comes before GPU 0 in PCI order; list them in that order, \"cuda_index\" is for another one");
  EXPECT_EQ(
      complaint([] {
        machine(R"({"schema": "thole/machine/1", "gpus": [{"vendor": "amd", "uuid": "a"}, {"vendor": "amd", "uuid": "a"}]})");
      }),
      "gpus: GPUs 0 and 1 have the same identity a");
  EXPECT_EQ(
      machine(
          R"({"schema": "thole/machine/1", "gpus": [{"vendor": "amd", "pci": "01:00.0", "part": 0}, )"
          R"({"vendor": "amd", "pci": "01:00.0", "part": 1}]})")
          .gpus.size(),
      2u);
}

TEST(Json, TakesCpusOneByOneOrAsListsAlike) {
  auto cpus = [](const std::string& list) { return machine(R"({"schema": "thole/machine/1", "cpus": [)" + list + "]}").cpus; };
  EXPECT_EQ(cpus(R"({"id": "0,1", "core": "0,1", "l3": 0, "numa": 1}, {"id": "2-3", "core": "0-1", "l3": 0, "numa": 1})"),
            cpus(R"({"id": 3, "core": 1, "l3": 0, "numa": 1}, {"id": 0, "core": 0, "l3": 0, "numa": 1},
                    {"id": 1, "core": 1, "l3": 0, "numa": 1}, {"id": 2, "core": 0, "l3": 0, "numa": 1})"));
  EXPECT_EQ(cpus(R"({"id": "0-1", "core": 5})"), cpus(R"({"id": 0, "core": 5}, {"id": 1, "core": 5})"));
  EXPECT_EQ(cpus(R"({"id": "0-1"})"), cpus(R"({"id": 0}, {"id": 1})"));
  EXPECT_EQ(
      cpus(R"({"id": "0-3,8-11", "core": "0-3", "l3": "4,6", "package": 0})"),
      cpus(
          R"({"id": "0-1,8-9", "core": "0-1", "l3": 4, "package": 0}, )"
          R"({"id": "2-3,10-11", "core": "2-3", "l3": 6, "package": 0})"))
      << "second threads of the same cores; two cores a cache";
  EXPECT_EQ(complaint([&] { cpus(R"({"id": "0-3", "core": "0-2"})"); }), "cpus[0].core: 3 cores for 4 CPUs");
  EXPECT_EQ(complaint([&] { cpus(R"({"id": "0-3", "core": ""})"); }), "cpus[0].core: 0 cores for 4 CPUs");
  EXPECT_EQ(complaint([&] { cpus(R"({"id": "0-7", "core": "0-3", "l3": "0-2"})"); }), "cpus[0].l3: 3 caches for 4 cores");
  EXPECT_EQ(complaint([&] { cpus(R"({"id": "0-3", "l3": "0,1"})"); }), "cpus[0].l3: 2 caches for 0 cores");
  EXPECT_EQ(complaint([&] { cpus(R"({"core": 1})"); }),
            "cpus[0].id: expected a whole number, 0 or more; null when it is unknown");
}

TEST(Json, TakesLinksOneByOneOrAsListsAlike) {
  const Machine listed = with_gpu(R"("links": [{"to": ["0000:01:00.0", "2:0"], "kind": "nvlink", "count": 4}])");
  const Machine single = with_gpu(R"("links": [{"to": "0000:01:00.0", "kind": "nvlink", "count": 4},
                                               {"to": "0000:02:00.0", "kind": "nvlink", "count": 4}])");
  EXPECT_EQ(dump(to_json(listed)), dump(to_json(single)));
  EXPECT_EQ(complaint([] { with_gpu(R"("links": [{"to": ["0000:01:00.0", 7], "kind": "nvlink"}])"); }),
            "gpus[0].links[0].to[1]: expected a string");
}

TEST(Json, ToleratesFieldsOfLaterVersions) { EXPECT_EQ(with_gpu(R"("color": {"r": 1})").gpus[0].uuid, "GPU-1"); }

TEST(Json, TellsUnknownUnsupportedAndFailedApartAndNeverAsZero) {
  Use use = with_gpu(R"("use": {"memory_used_mib": 0, "power_w": null, "temperature_c": null,
                                "unsupported": ["power_w"], "errors": {"temperature_c": "no permission"}})").gpus[0].use;
  EXPECT_EQ(use.memory_used_mib, std::uint64_t{0});
  EXPECT_EQ(use.power_w.state(), Metric<double>::State::unsupported);
  EXPECT_EQ(use.temperature_c, Metric<double>::failed("no permission"));
  EXPECT_EQ(use.utilization_percent.state(), Metric<double>::State::unknown);
  EXPECT_EQ(use.processes.state(), Metric<std::vector<GpuProcess>>::State::unknown);
  EXPECT_EQ(
      dump(to_json(use), -1),
      R"({"memory_used_mib":0,"utilization_percent":null,"memory_utilization_percent":null,"temperature_c":null,)"
      R"("power_w":null,)"
      R"("power_limit_w":null,"processes":null,"unsupported":["power_w"],"errors":{"temperature_c":"no permission"}})");
}

TEST(Json, UnknownGpuFieldsAreNull) {
  Json json = to_json(with_gpu(R"("numa": null)")).at("gpus")[0];
  for (auto key : {"model", "pci", "part", "minor", "cuda_index", "memory_mib", "numa", "display", "compute_mode",
                   "health_reason", "last_xid", "use"})
    EXPECT_TRUE(json.at(key).is_null()) << key;
}

TEST(Json, DumpsStrangersTextAsPlainAscii) {
  Holding holding;
  holding.key = "GPU-1";
  holding.command = "\x1b[2J\xff\xc2\x9b\xe2\x80\xae\x7f";
  std::string text = dump(to_json(holding));
  for (char c : text) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << static_cast<int>(c);
  EXPECT_NE(text.find("\\u001b[2J\\ufffd\\u009b\\u202e\\u007f"), std::string::npos) << text;
}

Snapshot snapshot() {
  Snapshot result;
  result.machine = machine(R"({"schema": "thole/machine/1", "name": "two", "gpus": [{"uuid": "GPU-0", "vendor": "nvidia"},
                               {"uuid": "GPU-1", "vendor": "nvidia", "mig": [{"uuid": "MIG-a"}, {"uuid": "MIG-b"}]}]})");
  result.taken_at = *parse_iso("2026-11-21T14:20:05Z");
  result.observations.push_back(
      {.backend = "file", .source = "two.json", .problem = "", .answered = true, .pids_foreign = false, .age = Millis(1500)});
  return result;
}

Holding holding(const std::string& key, const std::string& id) {
  Holding result;
  result.key = key;
  result.id = id;
  return result;
}

Waiting waiting(std::uint64_t ticket, std::vector<std::string> eligible) {
  Waiting result;
  result.ticket = ticket;
  result.uid = 1000;
  result.user = "anna";
  result.eligible = std::move(eligible);
  result.count = 1;
  return result;
}

TEST(StatusJson, IsTheMachineAndReadsBackAsOne) {
  Snapshot before = snapshot();
  Json json = status_json(before, {holding("GPU-0", "aa")}, {waiting(1, {"GPU-0"})});
  EXPECT_EQ(machine_from_json(parse_json(dump(json), "status"), "status"), before.machine);
  EXPECT_EQ(json["taken_at"], "2026-11-21T14:20:05Z");
  EXPECT_EQ(json["observations"][0]["age_s"], 1.5);
  EXPECT_TRUE(json["observations"][0]["problem"].is_null());
}

TEST(StatusJson, NamesTheUnitOfEachClaim) {
  Json claims = status_json(snapshot(), {holding("MIG-b", "aa"), holding("GPU-gone", "bb")}, {})["claims"];
  EXPECT_EQ(claims[0]["gpu"], 1);
  EXPECT_EQ(claims[0]["unit"], "1:1");
  EXPECT_EQ(claims[0]["id"], "aa");
  EXPECT_TRUE(claims[1]["gpu"].is_null());
  for (auto key : {"uid", "user", "pid", "since", "until", "memory_mib", "command"})
    EXPECT_TRUE(claims[0].at(key).is_null()) << key;
}

TEST(StatusJson, SaysWhatEachTicketWaitsFor) {
  Json queue = status_json(snapshot(), {holding("GPU-0", "aa"), holding("MIG-a", "bb"), holding("MIG-b", "")},
                           {waiting(7, {"GPU-0"}), waiting(8, {"MIG-a", "MIG-b"}), waiting(9, {"GPU-0", "MIG-a"})})["queue"];
  EXPECT_EQ(queue[0]["waits_for"].dump(), R"({"claims":["aa"],"tickets":[]})");
  EXPECT_EQ(queue[1]["waits_for"].dump(), R"({"claims":["bb"],"tickets":[]})");
  EXPECT_EQ(queue[2]["waits_for"].dump(), R"({"claims":["aa","bb"],"tickets":[7,8]})");
  EXPECT_EQ(queue[2]["wants"]["any_of"].dump(), R"(["GPU-0","MIG-a"])");
  EXPECT_TRUE(queue[2]["time_s"].is_null());
}

}  // namespace
}  // namespace thole::model
