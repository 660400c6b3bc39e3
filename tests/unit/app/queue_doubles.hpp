// What stands for a clock and for the way to the runner where the queue's use cases are tested.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "port/clock.hpp"
#include "port/queue_door.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {

struct StillClock : port::Clock {
  WallTime wall() const override { return at(100); }
  SteadyTime steady() const override { return now; }
  SteadyTime now{};
};

struct SilentDoor : port::QueueDoor {
  std::string surroundings(const std::vector<std::string>&) override { return ""; }
  void stir() override {
    ++stirred;
    if (broken) throw Error(ErrorCode::unavailable, "cannot start the runner");
  }
  void nudge(std::uint64_t lane) override {
    nudged.push_back(lane);
    if (broken) stir();
  }
  std::optional<pid_t> stopped_runner() override { return std::nullopt; }
  std::optional<pid_t> stopped_lane(std::uint64_t) override { return std::nullopt; }
  std::vector<std::string> left_of(const model::Task&, const std::string&) override { return {}; }
  std::optional<port::UnseenRun> unseen(const model::Task& task, const std::string&) override {
    const auto found = std::ranges::find(not_seen, task.index, &port::UnseenRun::task);
    return found == not_seen.end() ? std::nullopt : std::optional(*found);
  }
  std::optional<port::NotedEnd> noted_end(const model::Task&) override { return noted; }
  std::string last_said() const override { return log; }
  std::string full_disk() const override { return full; }
  std::string read_only_disk() const override { return ""; }
  bool relieve(const Files& files, bool awaited) override {
    UnseenCounts unseen;
    for (const port::UnseenRun& run : not_seen) ++unseen[run.job];
    asked_for_files.push_back(files(unseen));
    relief_awaited = awaited;
    return runner_has_told;
  }
  std::optional<model::JobId> job_of_lane(pid_t) override { return std::nullopt; }
  Fd runner_end() override { return Fd(::dup(end)); }
  std::string log_path(const std::string& name) const override { return name; }
  void forget_logs(model::JobId) override {}
  void settle_code(const Owner& owner) override {
    for (const std::string& copy : copies) settled.push_back(owner(copy));
  }
  bool broken = false;                           // nobody can be told
  int end = -1;                                  // of a runner that is said to live
  unsigned stirred = 0;
  std::optional<port::NotedEnd> noted;
  std::string log, full;
  std::vector<port::UnseenRun> not_seen;
  std::vector<std::vector<std::string>> asked_for_files;
  bool relief_awaited = false, runner_has_told = true;
  std::vector<std::string> copies;
  std::vector<std::optional<model::JobId>> settled;
  std::vector<std::uint64_t> nudged;
};

}  // namespace thole::host
