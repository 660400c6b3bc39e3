// Made-up commands for port::Commands, and a clock that the test sets: a life of hours takes no time.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "port/clock.hpp"
#include "port/commands.hpp"

namespace thole::test {

struct SetClock : port::Clock {
  SteadyTime now{};
  WallTime wall() const override { return WallTime{} + std::chrono::duration_cast<Millis>(now.time_since_epoch()); }
  SteadyTime steady() const override { return now; }
};

// A process of a made-up command.
struct FakeMember {
  pid_t pid = 0;
  std::string name;
  std::vector<int> deaf = {};                    // signals that it does not end by
  bool in_group = true;
};

class FakeCommands : public port::Commands {
 public:
  struct Running {
    bool runs = false;
    FakeMember command;
    std::vector<FakeMember> rest;                // besides the command
    model::Left seen = model::Left::something;   // what a look says of a rest that is there
    bool let_go = false;
    model::Signal told_signal{};
    std::set<pid_t> told;                        // who has got it
  };

  pid_t start(port::Bay bay, const port::ProcessSpec& spec) override {
    Running& it = bays[bay];
    it.runs = true;
    it.let_go = false;
    if (it.command.pid == 0) it.command = {100 + static_cast<pid_t>(bay), spec.argv.empty() ? "" : spec.argv.front()};
    return it.command.pid;
  }

  std::vector<std::string> send(port::Bay bay, model::Signal signal, model::SentTo to) override {
    Running& it = bays[bay];
    if (std::exchange(it.told_signal, signal) != signal || signal == model::Signal::kill) it.told.clear();
    bool anybody = false;
    const auto ends = [&](const FakeMember& member) {
      if (to == model::SentTo::group && !member.in_group) return false;
      if (!it.told.insert(member.pid).second) return false;
      anybody = true;
      const bool is_pause = signal == model::Signal::stop || signal == model::Signal::go_on;
      return !is_pause && std::find(member.deaf.begin(), member.deaf.end(), static_cast<int>(signal)) == member.deaf.end();
    };
    const bool rest_ended = std::erase_if(it.rest, ends) > 0;
    const bool command_ended = it.runs && ends(it.command);
    if (anybody)
      sent.push_back(std::to_string(bay) + ":" + std::to_string(static_cast<int>(signal)) +
                     (to == model::SentTo::group ? " group" : ""));
    if (command_ended) end(bay, {}, static_cast<int>(signal));
    else if (rest_ended) stir();
    return {};
  }

  port::Rest look(port::Bay bay, port::Names names) override {
    const Running& it = bays[bay];
    port::Rest rest;
    rest.left = it.rest.empty() ? model::Left::nothing : it.seen;
    if (names == port::Names::no || !shows) return rest;
    if (it.runs) rest.who.push_back(member(it.command));
    for (const FakeMember& one : it.rest) rest.who.push_back(member(one));
    return rest;
  }

  void let_go(port::Bay bay) override { bays[bay].let_go = true; }
  void watch(int fd, bool on) override {
    std::erase(watched, fd);
    if (on) watched.push_back(fd);
  }

  // Nothing happens but what the test has told, or the clock reaches the deadline.
  std::span<const port::CommandEvent> wait(std::optional<SteadyTime> deadline) override {
    told_ = std::exchange(happened, {});
    if (told_.empty() && deadline) clock.now = std::max(clock.now, *deadline);
    return told_;
  }

  void end(port::Bay bay, std::optional<int> exit_code, std::optional<int> signal = {}) {
    Running& it = bays[bay];
    it.runs = false;
    happened.push_back(port::CommandEnded{bay, {exit_code, signal, false, {}}, it.rest.empty()});
  }
  void stir() { happened.push_back(port::RestStirred{}); }

  SetClock clock;
  bool shows = true;                             // who there is
  std::map<port::Bay, Running> bays;
  std::vector<std::string> sent;                 // "BAY:SIGNAL", " group" behind it; what nobody got is not in it
  std::vector<int> watched;
  std::vector<port::CommandEvent> happened;      // what the next wait tells

 private:
  static port::Member member(const FakeMember& one) { return {one.pid, one.name, std::to_string(one.pid) + " " + one.name}; }
  std::vector<port::CommandEvent> told_;
};

}  // namespace thole::test
