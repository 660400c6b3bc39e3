#include "host/gpu/file/machine_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/gpu/file/search.hpp"
#include "host/gpu/file/shorthand.hpp"
#include "model/unit.hpp"
#include "test_folders.hpp"

namespace thole::host {
namespace {

using testing::HasSubstr;

const std::vector<std::string> shipped{THOLE_SOURCE_DIR "/machines"};

// A folder of its own that goes away with the test.
class Folder {
 public:
  Folder() { path_ = ::mkdtemp(name_); }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  char name_[32] = "/tmp/thole-machine-XXXXXX";
  std::string path_;
};

std::string one_gpu(const std::string& use) {
  return R"({"schema": "thole/machine/1", "gpus": [{"uuid": "GPU-1", "vendor": "nvidia", "use": )" + use + "}]}";
}

std::string complaint(const std::string& name, const std::vector<std::string>& directories = shipped) {
  try {
    MachineFile file(name, directories);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::usage);
    return error.full();
  }
  return "no complaint";
}

// A process that lives until it is told to end.
class Sleeper {
 public:
  Sleeper() : pid_(::fork()) {
    while (pid_ == 0) ::pause();
  }
  ~Sleeper() { end(), ::waitpid(pid_, nullptr, 0); }
  pid_t pid() const { return pid_; }
  void end() {  // it is a zombie afterwards: nobody has waited for it yet
    ::kill(pid_, SIGKILL);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
  }

 private:
  pid_t pid_;
};

TEST(MachineFile, FindsPathsShippedNamesAndShorthands) {
  EXPECT_EQ(MachineFile("dgx-a100", shipped).read(Millis(0)).gpus.size(), 8u);
  EXPECT_EQ(MachineFile(shipped[0] + "/none.json", {}).read(Millis(0)).gpus.size(), 0u);
  EXPECT_EQ(MachineFile("3xRTX4090", {}).read(Millis(0)).gpus.size(), 3u);
  Folder folder;
  write_file(folder / "dgx-a100.json", one_gpu("null"));
  EXPECT_EQ(MachineFile("dgx-a100", {folder / ".", shipped[0]}).read(Millis(0)).gpus.size(), 1u) << "the first directory wins";
}

TEST(MachineFile, AnUnknownNameGivesTheNearestAndTheList) {
  EXPECT_THAT(complaint("dgx-a10"), HasSubstr("nearest: dgx-a100; shipped: dgx-a100, dgx-h100, dgx1v, display,"));
  EXPECT_THAT(complaint("8xA10O"), HasSubstr("nearest: 8xA100; known: A100, A100-40,"));
  EXPECT_THAT(complaint("0xA100"), HasSubstr("a simulated machine has 1 to 64 GPUs: 0xA100"));
  EXPECT_THAT(complaint("65xA100"), HasSubstr("1 to 64"));
  EXPECT_THAT(complaint("\x1b[2J"), HasSubstr("no such simulated machine: \\x1b[2J"));
  EXPECT_THAT(complaint("8x"), HasSubstr("no such simulated machine: 8x"));
  EXPECT_THAT(complaint(""), HasSubstr("no such simulated machine"));
  EXPECT_THAT(complaint("nowhere", {}), HasSubstr("no shipped machines were found"));
}

TEST(MachineFile, ABrokenFileIsRefusedWithThePositionOfTheMistake) {
  Folder folder;
  EXPECT_THAT(complaint(folder / "absent.json"),
              HasSubstr("cannot read the machine file: " + folder / "absent.json: No such file"));
  EXPECT_THAT(complaint(folder / "."), HasSubstr("Is a directory"));
  write_file(folder / "m.json", "{\"schema\": ");
  EXPECT_THAT(complaint(folder / "m.json"), HasSubstr("not JSON at line 1, column 12"));
  write_file(folder / "m.json", one_gpu("{\"power_w\": \"much\"}"));
  EXPECT_THAT(complaint(folder / "m.json"),
              HasSubstr("gpus[0].use.power_w: expected a number; null when it is unknown: " + folder / "m.json"));
}

TEST(MachineFile, SeesEveryEditEvenWithinOneTickOfTheClock) {
  Folder folder;
  std::string path = folder / "m.json";
  write_file(path, one_gpu("{\"temperature_c\": 10}"));
  MachineFile file(path, {});
  for (int t = 11; t < 60; ++t) {
    // In place and of the same length: only the mtime can differ, and not always does.
    Fd fd = open_at(AT_FDCWD, path.c_str(), O_WRONLY);
    ASSERT_TRUE(write_all(fd.get(), one_gpu(fmt::format("{{\"temperature_c\": {}}}", t))));
    EXPECT_TRUE(file.changed());
    EXPECT_EQ(file.read(Millis(0)).gpus[0].use.temperature_c, static_cast<double>(t));
  }
}

TEST(MachineFile, AnOldFileIsReadOnce) {
  Folder folder;
  std::string path = folder / "m.json";
  write_file(path, one_gpu("{\"temperature_c\": 10}"));
  timespec old[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  MachineFile file(path, {});
  EXPECT_TRUE(file.changed()) << "nobody has read it yet";
  file.read(Millis(0));
  EXPECT_FALSE(file.changed());
  write_file(path, one_gpu("{\"temperature_c\": 99}"));
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  EXPECT_TRUE(file.changed()) << "replaced by another file with the same size and time";
  EXPECT_EQ(file.read(Millis(0)).gpus[0].use.temperature_c, 99.0);
}

TEST(MachineFile, AHalfWrittenFileKeepsTheLastGoodReadingAndSaysSo) {
  Folder folder;
  std::string path = folder / "m.json", good = one_gpu("{\"temperature_c\": 10}");
  write_file(path, good);
  MachineFile file(path, {});
  EXPECT_EQ(file.read(Millis(0)).observation.problem, "");

  write_file(path, good.substr(0, good.size() / 2));
  for (int twice = 0; twice < 2; ++twice) {
    port::Reading reading = file.read(Millis(0));
    ASSERT_EQ(reading.gpus.size(), 1u);
    EXPECT_EQ(reading.gpus[0].use.temperature_c, 10.0);
    EXPECT_THAT(reading.observation.problem, HasSubstr("not JSON at line 1"));
    EXPECT_THAT(reading.observation.problem, HasSubstr("the last good reading is used"));
  }
  ::unlink(path.c_str());
  EXPECT_THAT(file.read(Millis(0)).observation.problem, HasSubstr("No such file"));
  EXPECT_TRUE(file.changed());

  write_file(path, one_gpu("{\"temperature_c\": 20}"));
  port::Reading mended = file.read(Millis(0));
  EXPECT_EQ(mended.observation.problem, "");
  EXPECT_EQ(mended.gpus[0].use.temperature_c, 20.0);
}

TEST(MachineFile, AWatchedProcessLeavesTheUseWhenItEnds) {
  Folder folder;
  std::string path = folder / "m.json";
  Sleeper watched, unwatched;
  write_file(path, one_gpu(fmt::format(
      R"({{"memory_used_mib": 7000, "utilization_percent": 90, "processes": [{{"pid": {}, "memory_mib": 4000, "watch": true}},
          {{"pid": {}, "memory_mib": 2500, "watch": false}}, {{"pid": {}, "memory_mib": 500, "watch": true}}]}})",
      watched.pid(), unwatched.pid(), 1)));
  timespec old[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), old, 0), 0);
  MachineFile file(path, {});
  EXPECT_EQ(file.read(Millis(0)).gpus[0].use.processes.value_or({}).size(), 3u);
  EXPECT_FALSE(file.changed());

  watched.end();
  unwatched.end();
  EXPECT_TRUE(file.changed());
  model::Use use = file.read(Millis(0)).gpus[0].use;
  ASSERT_EQ(use.processes.value_or({}).size(), 2u);
  EXPECT_EQ((*use.processes)[0].pid, unwatched.pid()) << "nobody said that this pid is real";
  EXPECT_EQ(use.memory_used_mib, std::uint64_t{3000});
  EXPECT_EQ(use.utilization_percent, 90.0) << "others are still there";
  EXPECT_FALSE(file.changed());
}

TEST(MachineFile, TheLastWatchedProcessTakesTheUtilisationWithIt) {
  Folder folder;
  std::string path = folder / "m.json";
  Sleeper child;
  write_file(
      path,
      one_gpu(fmt::format(
          R"({{"memory_used_mib": 10, "utilization_percent": 90, "processes": [)"
          R"({{"pid": {}, "memory_mib": 4000, "watch": true}}]}})",
          child.pid())));
  MachineFile file(path, {});
  child.end();
  model::Use use = file.read(Millis(0)).gpus[0].use;
  EXPECT_TRUE(use.processes.known());
  EXPECT_TRUE(use.processes.value_or({}).empty());
  EXPECT_EQ(use.memory_used_mib, std::uint64_t{0}) << "never below nothing";
  EXPECT_EQ(use.utilization_percent, 0.0);
}

TEST(MachineFile, APidGivenToAnotherProcessCountsAsEnded) {
  Folder proc;
  std::filesystem::create_directory(proc / "77");
  auto stat = [&](const char* start) {
    write_file(proc / "77/stat", fmt::format("77 (a) b) S 1 77 77 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {} 0 0\n", start));
  };
  model::Gpu gpu;
  gpu.use.processes =
      std::vector{model::GpuProcess{.pid = 77, .user{}, .uid{}, .command{}, .kind{}, .memory_mib{}, .watch = true}};
  std::vector<model::Gpu> gpus{gpu};
  stat("1000");
  Watch watch(proc / ".");
  watch.follow(gpus);
  EXPECT_FALSE(watch.news());
  stat("1001");
  EXPECT_TRUE(watch.news());
  EXPECT_FALSE(watch.news());
  watch.follow(gpus);  // read again after an edit elsewhere in the file
  watch.apply(gpus);
  EXPECT_TRUE(gpus[0].use.processes.value_or({}).empty());
}

std::string with_accounts(const std::string& first, const std::string& second) {
  return R"({"schema": "thole/machine/1", "gpus": [{"uuid": "GPU-1", "vendor": "nvidia", "accounts": )" + first +
         R"(}, {"uuid": "GPU-2", "vendor": "nvidia", "accounts": )" + second + "}]}";
}

TEST(MachineFile, ThePeakOfATaskIsTheLargestProcessOfItsTimeOnItsGpus) {
  Folder folder;
  std::string path = folder / "m.json";
  write_file(path, with_accounts(R"([{"started": "2026-11-21T10:00:00.250Z", "peak_memory_mib": 700},
                                     {"started": "2026-11-21T10:00:09Z", "peak_memory_mib": 900},
                                     {"started": "2026-11-21T10:00:10.001Z", "peak_memory_mib": 5000},
                                     {"started": "2026-11-21T10:00:00.249Z", "peak_memory_mib": 6000}])",
                                 R"([{"started": "2026-11-21T10:00:01Z", "peak_memory_mib": 800}])"));
  MachineFile file(path, {});
  const WallTime from = *parse_iso("2026-11-21T10:00:00.250Z"), to = *parse_iso("2026-11-21T10:00:10Z");
  EXPECT_EQ(file.peak_memory_mib({"GPU-1"}, from, to, Millis(0)), 900u);
  EXPECT_EQ(file.peak_memory_mib({"GPU-2"}, from, to, Millis(0)), 800u);
  EXPECT_EQ(file.peak_memory_mib({"GPU-1", "GPU-2"}, from, to, Millis(0)), 900u);
  EXPECT_EQ(file.peak_memory_mib({"GPU-2"}, to, to, Millis(0)), std::nullopt) << "none of that time";
  write_file(path, with_accounts(R"([{"started": "2026-11-21T10:00:02Z", "peak_memory_mib": 30}])", "null"));
  EXPECT_EQ(file.peak_memory_mib({"GPU-1"}, from, to, Millis(0)), 30u) << "as the file is now";
  EXPECT_EQ(file.peak_memory_mib({"GPU-1", "GPU-2"}, from, to, Millis(0)), std::nullopt) << "the mode is off on one";
}

TEST(MachineFile, AnAccountWithoutATimeIsRefused) {
  Folder folder;
  std::string path = folder / "m.json";
  write_file(path, with_accounts(R"([{"started": "yesterday", "peak_memory_mib": 1}])", "[]"));
  EXPECT_THAT(complaint(path), HasSubstr("gpus[0].accounts[0].started: expected a time such as"));
  write_file(path, with_accounts("[]", R"([{"started": "2026-11-21T10:00:00Z"}])"));
  EXPECT_THAT(complaint(path), HasSubstr("gpus[1].accounts[0].peak_memory_mib"));
}

TEST(MachineFile, AHungGpuReadsAsADriverThatDidNotAnswer) {
  Folder folder;
  std::string path = folder / "m.json";
  write_file(path, R"({"schema": "thole/machine/1", "gpus": [{"uuid": "GPU-1", "vendor": "nvidia", "health": "hung"}]})");
  MachineFile file(path, {});
  EXPECT_FALSE(file.read(Millis(0)).observation.answered);
  write_file(path, R"({"schema": "thole/machine/1", "gpus": [{"uuid": "GPU-1", "vendor": "nvidia", "health": "lost"}]})");
  EXPECT_TRUE(file.read(Millis(0)).observation.answered);
  EXPECT_EQ(file.read(Millis(0)).gpus[0].health, model::Health::lost);
}

TEST(Shorthand, IsTheSameMachineAtEveryCall) {
  EXPECT_EQ(shorthand_machine("8xA100"), shorthand_machine("8xa100"));
  // Pinned: state directories and saved scripts know these.
  EXPECT_EQ(shorthand_machine("1xA100")->gpus[0].uuid, "GPU-a0d6b5e7-e76c-5997-9743-56c179435fe7");
  std::set<std::string> uuids;
  model::Machine largest = shorthand_machine("64xA100").value();
  for (const model::Gpu& gpu : largest.gpus) uuids.insert(gpu.uuid);
  EXPECT_EQ(uuids.size(), 64u);
}

TEST(Shorthand, EveryModelMakesAMachineThatReadsBack) {
  for (const std::string& word : shorthand_models())
    for (const char* count : {"1", "2", "8"}) {
      model::Machine machine = shorthand_machine(count + ("x" + word)).value();
      EXPECT_EQ(model::units(machine).size(), parse_u64(count)) << word;
      for (const model::Gpu& gpu : machine.gpus) {
        EXPECT_GE(gpu.memory_mib.value_or(0), 10000u) << word;
        EXPECT_TRUE(gpu.use.processes.known());
        EXPECT_EQ(gpu.links.size(), machine.gpus.size() - 1);
      }
    }
  EXPECT_EQ(shorthand_machine("8xA100-40")->gpus[0].model, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(shorthand_machine("4xRTX4090")->gpus[3].memory_mib, 24564u);
  EXPECT_EQ(shorthand_machine("dgx-a100"), std::nullopt);
}

TEST(MachineDirectories, AreTheGivenOneTheInstalledOneAndTheBuildFolders) {
  EXPECT_EQ(machine_directories("/m", "/usr/bin/thole"),
            (std::vector<std::string>{"/m", "/usr/bin/../share/thole/machines", "/usr/bin/machines"}));
  EXPECT_TRUE(machine_directories("", "thole").empty());
}

}  // namespace
}  // namespace thole::host
