#include "wire/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "test_folders.hpp"

using namespace thole;
using namespace thole::wire;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

Config read_config(const plan::Environment& environment, const std::vector<std::string>& files) {
  return wire::read_config(environment, files, "/usr/bin/thole");
}

class ConfigFile : public testing::Test {
 protected:
  ConfigFile() { EXPECT_NE(::mkdtemp(directory_.data()), nullptr); }
  ~ConfigFile() override {
    for (const std::string& file : written_) ::unlink(file.c_str());
    ::rmdir(directory_.c_str());
  }
  std::string file(const std::string& name, const std::string& text) {
    written_.push_back(directory_ + "/" + name);
    write_file(written_.back(), text);
    return written_.back();
  }
  std::string mistake_in(const std::string& text) { return mistake_with({}, {file("bad.toml", text)}); }
  static std::string mistake_with(const plan::Environment& environment, const std::vector<std::string>& files = {}) {
    try {
      read_config(environment, files);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::usage);
      return error.full();
    }
    ADD_FAILURE() << "accepted";
    return "";
  }

 private:
  std::string directory_ = testing::TempDir() + "thole-config-XXXXXX";
  std::vector<std::string> written_;
};

}  // namespace

TEST_F(ConfigFile, NoFileAndNoVariableIsTheDefaults) {
  Config config = read_config({}, {"/nonexistent/config.toml"});
  EXPECT_THAT(config.files, IsEmpty());
  EXPECT_EQ(config.settings.machine, "");
  EXPECT_FALSE(config.request.wait);
}

TEST_F(ConfigFile, TheGpuFileOfPbsIsRead) {
  char host[256] = "";
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  const std::string gpus = file("gpus", std::string(host) + "-gpu1\nelsewhere-gpu0\n");
  EXPECT_EQ(read_config({{"PBS_GPUFILE", gpus}}, {}).settings.environment.at("PBS_GPUFILE"), "gpu1");
  EXPECT_EQ(read_config({{"PBS_GPUFILE", "/nonexistent"}}, {}).settings.environment.at("PBS_GPUFILE"), "/nonexistent");
}

TEST_F(ConfigFile, EveryKindOfValueIsRead) {
  Config config = read_config({}, {file("a.toml", R"(
machine = "dgx-a100"
[request]
wait = "1h"
pick = "memory"
max_load = 20
max_memory = 0.25
trust_claims = true
ids = "uuid"
[free]
ignore_processes = ["Xorg", "dcgm"]
ignore_memory = "128M"
[probe]
patience = 5
)")});
  EXPECT_EQ(config.settings.machine, "dgx-a100");
  EXPECT_EQ(config.request.wait, Seconds{3600});
  EXPECT_EQ(config.request.pick, model::Pick::memory);
  EXPECT_EQ(config.request.max_load_percent, 20.0);
  EXPECT_EQ(config.request.max_memory_percent, 25.0);
  EXPECT_TRUE(config.request.trust_claims);
  EXPECT_EQ(config.ids, "uuid");
  EXPECT_THAT(config.settings.free_policy.ignore_processes, ElementsAre("Xorg", "dcgm"));
  EXPECT_EQ(config.settings.free_policy.ignore_memory_mib, 128u);
  EXPECT_EQ(config.settings.probe_cold, Millis{5000});
}

TEST_F(ConfigFile, TheLaterWins) {
  const std::string site = file("site.toml", "machine = \"site\"\nstate_dir = \"/site\"\n[request]\nwait = \"1h\"");
  const std::string user = file("user.toml", "machine = \"user\"\n[request]\nwait = \"2h\"");
  Config config = read_config({{"THOLE_WAIT", "3h"}}, {site, user});
  EXPECT_EQ(config.settings.state_dir, "/site");
  EXPECT_EQ(config.settings.machine, "user");
  EXPECT_EQ(config.request.wait, Seconds{3 * 3600});
  EXPECT_THAT(config.files, ElementsAre(site, user));
}

TEST_F(ConfigFile, AnEmptyVariableIsNoVariable) {
  EXPECT_EQ(read_config({{"THOLE_MACHINE", ""}}, {file("a.toml", "machine = \"x\"")}).settings.machine, "x");
}

TEST_F(ConfigFile, AListInAVariableIsSeparatedByCommas) {
  EXPECT_THAT(read_config({{"THOLE_IGNORE_PROCESSES", "a, b"}}, {}).settings.free_policy.ignore_processes,
              ElementsAre("a", "b"));
}

TEST_F(ConfigFile, AnUnknownKeyIsAnErrorThatNamesPositionAndNearest) {
  const std::string text = mistake_in("machine = \"x\"\n[request]\nwiat = \"1h\"\n");
  EXPECT_THAT(text, HasSubstr("bad.toml:3: request.wiat: unknown key"));
  EXPECT_THAT(text, HasSubstr("did you mean request.wait?"));
}

TEST_F(ConfigFile, AMalformedValueIsAnErrorThatQuotesIt) {
  EXPECT_THAT(mistake_in("[request]\nwait = \"soon\"\n"),
              HasSubstr("bad.toml:2: request.wait: expected a time such as 30m, got \"soon\""));
  EXPECT_THAT(mistake_in("[request]\nwait = [1, 2]\n"), HasSubstr("expected one value, got a list"));
  EXPECT_THAT(mistake_in("[request]\nids = \"name\"\n"), HasSubstr("auto, uuid or index"));
  EXPECT_THAT(mistake_in("[request]\nmax_load = 200\n"), HasSubstr("a percentage"));
  EXPECT_THAT(mistake_in("machine = 2026-11-21\n"), HasSubstr("bad.toml:1: expected a text"));
}

TEST_F(ConfigFile, ARelativeDirectoryIsRefusedWithWhatToSayInstead) {
  for (const std::string key : {"state_dir", "personal_dir", "queue.dir", "machines_dir"}) {
    const std::string text = mistake_in(key + " = \"claims\"\n");
    EXPECT_THAT(text, HasSubstr("bad.toml:1: " + key + ": \"claims\" is no absolute path"));
    EXPECT_THAT(text, HasSubstr("say all of it: \"/"));
  }
  for (const std::string variable : {"THOLE_STATE_DIR", "THOLE_PERSONAL_DIR", "THOLE_QUEUE_DIR", "THOLE_MACHINES"}) {
    const std::string text = mistake_with({{variable, "~/claims"}, {"HOME", "/home/anna"}});
    EXPECT_THAT(text, HasSubstr(variable + ": \"~/claims\" is no absolute path"));
    EXPECT_THAT(text, HasSubstr("\"/home/anna/claims\""));
  }
  EXPECT_EQ(read_config({{"THOLE_STATE_DIR", "/srv/claims"}}, {}).settings.state_dir, "/srv/claims");
}

TEST_F(ConfigFile, HowLongLogsAreKeptHasAUnit) {
  EXPECT_THAT(mistake_in("[queue]\nkeep = 30\n"), HasSubstr("bad.toml:2: queue.keep: 30 of what?"));
  EXPECT_THAT(mistake_in("[queue]\nkeep = \"30\"\n"), HasSubstr("\"30d\" for days"));
  EXPECT_THAT(mistake_in("[queue]\nkeep = 0\n"), HasSubstr("0 of what?"));
  EXPECT_THAT(mistake_with({{"THOLE_QUEUE_KEEP", "90"}}), HasSubstr("THOLE_QUEUE_KEEP: 90 of what?"));
  EXPECT_EQ(read_config({{"THOLE_QUEUE_KEEP", "30d"}}, {}).settings.queue_keep, Seconds{30 * 86400});
  EXPECT_EQ(read_config({{"THOLE_QUEUE_KEEP", "0s"}}, {}).settings.queue_keep, Seconds{0});
}

TEST_F(ConfigFile, SomeTasksWithoutGpusMayRun) {
  EXPECT_THAT(mistake_in("[queue]\ncpu_tasks = 0\n"), HasSubstr("queue.cpu_tasks: expected a number from 1 on, got \"0\""));
  EXPECT_THAT(mistake_with({{"THOLE_CPU_TASKS", "4294967296"}}), HasSubstr("a number from 1 on"));
  EXPECT_EQ(read_config({{"THOLE_CPU_TASKS", "1"}}, {}).settings.cpu_tasks, 1u);
}

TEST_F(ConfigFile, WhatIsNoTomlIsAnErrorWithItsLine) {
  EXPECT_THAT(mistake_in("machine = \"x\"\n[request\n"), HasSubstr("bad.toml:2:"));
}

TEST_F(ConfigFile, AVariableThatMeansNothingIsNamed) {
  EXPECT_THAT(read_config({{"THOLE_MASHINE", "x"}, {"THOLE_TIME", ""}}, {}).unknown,
              ElementsAre("THOLE_MASHINE", "THOLE_TIME"));
  EXPECT_THAT(read_config({{"THOLE_CLAIM", "x"}, {"THOLE_GPUS", "[]"}, {"THOLE_SUBMIT_DIR", "/x"}}, {}).unknown, IsEmpty());
}

TEST(ConfigFiles, FollowTheXdgRules) {
  EXPECT_THAT(config_files({{"HOME", "/home/anna"}}),
              ElementsAre("/etc/thole/config.toml", "/home/anna/.config/thole/config.toml"));
  EXPECT_THAT(config_files({{"HOME", "/home/anna"}, {"XDG_CONFIG_HOME", "/x"}}),
              ElementsAre("/etc/thole/config.toml", "/x/thole/config.toml"));
  EXPECT_THAT(config_files({{"XDG_CONFIG_HOME", "relative"}}), ElementsAre("/etc/thole/config.toml"));
}

TEST(ConfigKeys, AreUnique) {
  std::set<std::string_view> names, variables;
  for (const ConfigKey& key : config_keys()) {
    EXPECT_TRUE(key.name.empty() || names.insert(key.name).second) << key.name;
    EXPECT_TRUE(key.variable.empty() || variables.insert(key.variable).second) << key.variable;
  }
}

TEST(ConfigKeys, AreAllDocumented) {
  const auto page = read_file(THOLE_SOURCE_DIR "/docs/configuration.md");
  ASSERT_TRUE(page);
  for (const ConfigKey& key : config_keys()) {
    EXPECT_TRUE(key.variable.empty() || page->find("`" + std::string(key.variable) + "`") != std::string::npos) << key.variable;
    EXPECT_THAT(*page, HasSubstr("`" + std::string(key.name)));
  }
}
