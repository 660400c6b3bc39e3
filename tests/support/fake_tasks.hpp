// Made-up tasks for port::TaskPool, and claims that are made between two waits: a `map` of hours takes no time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/aside.hpp"
#include "base/bell.hpp"
#include "base/error.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "port/task_pool.hpp"
#include "support/fake_site.hpp"

namespace thole::test {

// How a made-up task lives.
struct FakeTask {
  Millis length{1000};                           // of the command, where nobody ends it
  int exit_code = 0;
  std::set<int> deaf = {};                       // signals that it does not end by
  std::optional<int> on_term = {};               // its exit code when it gets TERM; absent: it ends by that
  Millis saves{0};                               // how long it takes to end then
  std::optional<Millis> leaves = {};             // something of its group outlives it, for so long
  std::set<int> deaf_rest = {};                  // and what that does not end by
  std::function<void()> start = {};              // may throw
};

// What is to be done aside is done when the test's pool finds time for it.
class LateAside final : public Aside {
 public:
  int fd() const override { return done_.fd(); }
  void begin(std::function<void()> work) override { work_ = std::move(work); }
  std::exception_ptr end() override {
    run();
    done_.silence();
    return std::exchange(failure_, nullptr);
  }
  bool has_work() const { return static_cast<bool>(work_); }
  void run() {
    if (!work_) return;
    try {
      std::exchange(work_, nullptr)();
    } catch (...) {
      failure_ = std::current_exception();
    }
    done_.ring();
  }

 private:
  Bell done_;
  std::function<void()> work_;
  std::exception_ptr failure_;
};

class FakePool final : public port::TaskPool {
 public:
  using Kind = port::PoolEvent::Kind;

  FakePool(FakeClock& clock, LateAside& aside, std::function<bool()> can_claim)
      : clock_(clock), aside_(aside), can_claim_(std::move(can_claim)) {}

  std::map<std::string, FakeTask> tasks;         // by the last word; any other is a FakeTask{}
  std::vector<std::string> journal;              // "SECONDS what"
  port::Strays strays_left;                      // what is found outside of the groups
  Millis stands_still{0};                        // how long Ctrl-Z lasts

  // What the world does then; it may send(), or change what the test has.
  void at(Millis when, std::function<void()> what) { happens_.emplace(SteadyTime{when}, std::move(what)); }
  void send(int signal) {
    port::PoolEvent event{};
    event.kind = Kind::signal;
    event.number = signal;
    sent_.push_back(event);
  }
  void say(const std::string& text) {
    const auto ms = std::chrono::duration_cast<Millis>(clock_.passed).count();
    journal.push_back(fmt::format("{:g} {}", static_cast<double>(ms) / 1000, text));
  }

  std::size_t open(port::ProcessSpec spec, std::optional<std::size_t> again) override {
    std::size_t number = 0;
    if (again) number = *again;
    else while (bays_.contains(number)) ++number;
    bays_[number].gpus = spec.set["CUDA_VISIBLE_DEVICES"];
    return number;
  }
  void close(std::size_t bay) override { bays_.erase(bay); }
  std::vector<std::string>& words(std::size_t bay) override { return bays_.at(bay).words; }
  void check_program(const std::string&) override {}

  void start(std::size_t number) override {
    Bay& bay = bays_.at(number);
    const auto found = tasks.find(bay.words.back());
    bay.task = found == tasks.end() ? FakeTask{} : found->second;
    if (bay.task.start) bay.task.start();
    say("begins " + bay.words.back() + " on " + bay.gpus);
    bay.ends = clock_.steady() + bay.task.length;
    bay.how = {};
    bay.how.exit_code = bay.task.exit_code;
  }
  port::TaskOutput take_output(std::size_t) override { return {}; }

  void signal(std::size_t number, model::Signal signal) override {
    Bay& bay = bays_.at(number);
    const int it = static_cast<int>(signal);
    say(name_of(signal) + " to " + bay.words.back());
    if (bay.ends && *bay.ends > clock_.steady() && !bay.task.deaf.contains(it)) {
      const bool saves = signal == model::Signal::terminate;
      bay.ends = clock_.steady() + (saves ? bay.task.saves : Millis{0});
      bay.how = {};
      if (saves && bay.task.on_term) bay.how.exit_code = bay.task.on_term;
      else bay.how.signal = it;
      bay.task.leaves.reset();
    }
    if (bay.rest_ends && !bay.task.deaf_rest.contains(it)) bay.rest_ends = clock_.steady();
  }
  std::vector<std::string> group(std::size_t number) override {
    const Bay& bay = bays_.at(number);
    if (!bay.rest_ends) return {};
    return {"99 what " + bay.words.back() + " left"};
  }
  bool has_ended(std::size_t number) override {
    const Bay& bay = bays_.at(number);
    return !bay.ends || *bay.ends <= clock_.steady();
  }
  std::vector<std::string> out_of_reach() override { return {}; }
  void give_up(std::size_t number) override {
    say("given up: " + bays_.at(number).words.back());
    bays_.at(number).ends.reset();
    bays_.at(number).rest_ends.reset();
  }

  port::Strays strays(const std::vector<std::string>&) override { return strays_left; }
  std::vector<std::string> end_strays(const port::Whose&, model::Signal signal) override {
    say(name_of(signal) + " to strays");
    if (signal == model::Signal::kill) strays_left = {};
    return {};
  }
  void give_up_strays(const port::Whose&) override { strays_left = {}; }

  void watch(int fd) override { watched_.push_back(fd); }
  void unwatch(int fd) override { std::erase(watched_, fd); }
  void keep_texts(bool) override {}
  void stop_all() override {
    say("stands still");
    clock_.passed += stands_still;
    for (auto& [number, bay] : bays_)
      for (auto* end : {&bay.ends, &bay.rest_ends})
        if (*end) **end += stands_still;
  }

  std::span<const port::PoolEvent> wait(std::optional<SteadyTime> deadline) override {
    events_ = std::exchange(sent_, {});
    for (;;) {
      happen();
      if (aside_.has_work() && can_claim_()) aside_.run();
      for (const int fd : watched_)
        if (is_readable(fd)) event(Kind::readable, 0).number = fd;
      if (!events_.empty() || (deadline && *deadline <= clock_.steady())) return events_;
      std::optional<SteadyTime> next = deadline;
      for_each_time([&](SteadyTime time) { next = next ? std::min(*next, time) : time; });
      if (!next) throw std::logic_error("nothing will happen any more");
      clock_.passed = next->time_since_epoch();
    }
  }

 private:
  struct Bay {
    std::vector<std::string> words;
    std::string gpus;
    FakeTask task;
    port::Ended how;
    std::optional<SteadyTime> ends, rest_ends;   // of the command, until that is told; of what it has left
  };

  static std::string name_of(model::Signal signal) {
    switch (signal) {
      case model::Signal::interrupt: return "INT";
      case model::Signal::terminate: return "TERM";
      case model::Signal::kill: return "KILL";
      default: return std::to_string(static_cast<int>(signal));
    }
  }

  port::PoolEvent& event(Kind kind, std::size_t bay) {
    events_.emplace_back().kind = kind;
    events_.back().bay = bay;
    return events_.back();
  }

  template <class Visit>
  void for_each_time(const Visit& visit) const {
    if (!happens_.empty()) visit(happens_.begin()->first);
    for (const auto& [number, bay] : bays_)
      for (const auto& end : {bay.ends, bay.rest_ends})
        if (end) visit(*end);
  }

  void happen() {
    while (!happens_.empty() && happens_.begin()->first <= clock_.steady()) {
      const auto what = happens_.extract(happens_.begin());
      what.mapped()();
    }
    events_.insert(events_.end(), sent_.begin(), sent_.end());
    sent_.clear();
    for (auto& [number, bay] : bays_) {
      if (bay.ends && *bay.ends <= clock_.steady()) {
        if (bay.task.leaves) bay.rest_ends = *bay.ends + *bay.task.leaves;
        bay.ends.reset();
        port::PoolEvent& ended = event(Kind::ended, number);
        ended.how = bay.how;
        ended.left_group = bay.rest_ends.has_value();
      } else if (bay.rest_ends && *bay.rest_ends <= clock_.steady()) {
        bay.rest_ends.reset();
        event(Kind::alone, number);
      }
    }
  }

  FakeClock& clock_;
  LateAside& aside_;
  std::function<bool()> can_claim_;
  std::map<std::size_t, Bay> bays_;
  std::multimap<SteadyTime, std::function<void()>> happens_;
  std::vector<int> watched_;
  std::vector<port::PoolEvent> sent_, events_;
};

}  // namespace thole::test
