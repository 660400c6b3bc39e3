// A queue's ports over the real store: of lanes and of processes they only tell.
#pragma once

#include <fcntl.h>
#include <sys/eventfd.h>

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/queue/ports.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "host/process/local_binder.hpp"
#include "host/queue/local_door.hpp"
#include "host/queue/log_files.hpp"
#include "model/boot.hpp"
#include "unit/host/store/queue_fixture.hpp"

namespace thole::host {

struct ToldOfLanes : port::Lanes {
  std::function<Fd()> on_look = [] { return Fd(); };   // returns what hangs up when nobody has the lock any more
  model::LaneRecord* record = nullptr;
  int record_file = -1;                          // where it is written; -1: the memory itself
  std::vector<int> signals;
  std::vector<Fd> keepers;                       // of the lane's lock, which show no task
  std::size_t signals_to_keepers = 0;
  port::RunTrace looked_for{};                   // by the last look
  bool cannot_be_signalled = false;
  bool hidden = false;                           // nothing is seen of what has the lane's lock
  std::optional<port::RunnerSight> told_sight;
  bool unseen = false;                           // what lives is of another pid namespace

  // A process of the task.
  void begin(const model::Task& task) { living_[run_of(task)] = Fd(::eventfd(0, EFD_CLOEXEC)); }
  void end(const model::Task& task) {
    ::eventfd_write(living_.at(run_of(task)).get(), 1);   // as its descriptors tell
    living_.erase(run_of(task));
  }

  std::optional<port::RunnerSeat> sit() override { return std::nullopt; }
  bool keep(port::RunnerSeat&) override { return true; }
  std::vector<port::LaneView> look() override { return {}; }
  std::optional<port::LaneSeat> take(unsigned, model::JobId) override { return std::nullopt; }
  port::LaneView look_at(unsigned number) override {
    port::LaneView view;
    view.number = number;
    view.end = on_look();
    view.held = static_cast<bool>(view.end);
    view.record = port::SeenRecord(port::SeenRecord::Memory(record, [](const model::LaneRecord*) {}), Fd(::dup(record_file)));
    return view;
  }
  bool stands(const port::LaneSeat&) override { return true; }
  pid_t fork(port::LaneSeat, port::RunnerSeat&, const std::function<int(port::LaneSeat&)>&) override { return -1; }
  std::vector<Fd> bearers(const port::RunTrace& run) override {
    std::vector<Fd> ends;
    looked_for = run;
    if (unseen) throw port::Unseen(Error(ErrorCode::unavailable, "it is elsewhere"));
    for (const auto& [mark, end] : living_)
      if (run.mark.starts_with(mark)) ends.emplace_back(::fcntl(end.get(), F_DUPFD_CLOEXEC, 3));
    if (run.lane && run.is_alone)
      for (const Fd& keeper : keepers) ends.emplace_back(::fcntl(keeper.get(), F_DUPFD_CLOEXEC, 3));
    return ends;
  }
  bool signal_bearers(const port::RunTrace& run, model::Signal signal) override {
    if (cannot_be_signalled) throw Error(ErrorCode::unavailable, "cannot look at the queue's processes").because(EMFILE);
    if (hidden) throw port::Unseen(Error(ErrorCode::unavailable, "it has the lock").hint("sudo"), port::UnseenBy::hidden);
    signals.push_back(static_cast<int>(signal));
    if (run.lane && run.is_alone) signals_to_keepers += keepers.size();
    return !bearers(run).empty();
  }
  std::vector<Fd> holders(unsigned, const port::RunTrace&) override { return {}; }
  void tell_sight(const port::RunnerSight& sight) override { told_sight = sight; }
  bool relieve() override { return false; }
  bool is_awaited() override { return true; }
  void run_aside(const std::string&, const std::string&, const std::vector<std::string>&) override {}

 private:
  static std::string run_of(const model::Task& task) { return fmt::format("{}.{}.{}.", task.job, task.index, task.runs); }
  std::map<std::string, Fd> living_;
};

// The commands of dead lanes that have ended, as the kernel tells their new parent.
struct ToldOfChildren : port::Children {
  std::map<pid_t, model::HowEnded> ended;
  std::vector<pid_t> buried;
  Child look(pid_t pid) override {
    const auto found = ended.find(pid);
    return found == ended.end() ? Child{} : Child{true, found->second};
  }
  Child look_at_command(pid_t pid, const model::ProcessIdentity&) override { return look(pid); }
  void bury(pid_t pid) override {
    if (ended.erase(pid) > 0) buried.push_back(pid);
  }
  void bury_others(std::span<const pid_t>) override {}
};

struct ClockOfLanes : port::Clock {
  WallTime wall() const override { return at(100); }
  SteadyTime steady() const override { return now; }
  SteadyTime now{};
};

class LanesTest : public QueueTest {
 protected:
  LanesTest() {
    record.magic = model::lane_magic;
    model::put_boot(record, boot);
    lanes.record = &record;
  }

  const model::BootId boot{"this boot"};
  model::LaneRecord record{};
  ToldOfLanes lanes;
  ToldOfChildren children;
  ClockOfLanes clock;
  LocalDoor door{directory, {}};
  LogFiles logs{directory + "/logs"};
  LocalBinder binder;
  std::vector<std::string> said;
  app::QueuePorts ports{.site = {},
                        .jobs = *store,
                        .lanes = lanes,
                        .children = children,
                        .door = door,
                        .logs = logs,
                        .keeper = {},
                        .bind = {binder},
                        .make_door = {},
                        .clock = clock,
                        .carry = {},
                        .queue = directory,
                        .host = "host",
                        .boot = boot,
                        .say = [this](const std::string& text) { said.push_back(text); }};
};

}  // namespace thole::host
