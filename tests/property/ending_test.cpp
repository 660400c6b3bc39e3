// Made-up commands live at random: deaf to INT or TERM, with a rest that is deaf or cannot die, paused, asked, hurried,
// extended. Each life ends as it must. The long form: RC_PARAMS=max_success=200000.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "plan/job/ending.hpp"

namespace thole::plan {
namespace {

using namespace std::chrono_literals;
using model::Left;
using model::SentTo;
using model::Signal;

class World {
 public:
  explicit World(std::uint32_t seed) : dice_(seed) {
    manner_.patience = Millis(500 + roll(3000));
    if (chance(50)) manner_.limit = Millis(roll(8000));
    manner_.leaves = chance(50) ? Leaves::end : chance(50) ? Leaves::linger : Leaves::kill;
    obeys_interrupt_ = chance(50);
    obeys_terminate_ = chance(70);
    rest_ = chance(50) ? roll(3) : 0;
    rest_obeys_ = chance(60);
    rest_cannot_die_ = chance(10);
    ends_by_itself_ = chance(50);
    ends_ = now_ + Millis(roll(20000));
    life_ = born(manner_, now_);
  }

  void live() {
    for (int n = 0; n < 20000 && life_.phase != Phase::over; ++n) {
      step();
      // Who lingers, or is paused, is told some day.
      if (life_.phase == Phase::lingering && rest_ > 0 && chance(20)) rest_ends();
      if (life_.phase == Phase::lingering && rest_ > 0 && n > 10000) todo_.push_back(Asked{Why::cancelled});
      if (life_.phase == Phase::running && life_.paused && chance(10)) todo_.push_back(Paused{false});
    }
    RC_ASSERT(life_.phase == Phase::over || (life_.phase == Phase::running && command_));
    RC_ASSERT(named_ <= 1);
  }

 private:
  unsigned roll(unsigned sides) { return static_cast<unsigned>(dice_() % sides); }
  bool chance(unsigned percent) { return roll(100) < percent; }

  void rest_ends() {
    rest_ = 0;
    todo_.push_back(Stirred{});
  }

  Event next() {
    if (!todo_.empty()) {
      const Event event = todo_.back();
      todo_.pop_back();
      return event;
    }
    if (!command_ && life_.phase == Phase::running) return Ended{rest_ == 0 && chance(80)};
    now_ = std::max(now_, life_.deadline().value_or(now_ + 500ms));
    if (command_ && ends_by_itself_ && now_ >= ends_ && !stopped_) {
      command_ = false;
      return Ended{rest_ == 0 && chance(80)};
    }
    return something();
  }

  Event something() {
    if (chance(3)) return Asked{Why::cancelled, chance(50) ? Rung::interrupt : Rung::terminate};
    if (chance(3)) return Paused{chance(50)};
    if (chance(5)) return Stirred{};
    if (chance(1)) return Extended{now_ + Millis(roll(9000))};
    if (chance(2)) {
      const Slept slept{Millis(roll(5000))};
      now_ += slept.length;
      if (term_) *term_ += slept.length;
      return slept;
    }
    if (chance(2)) {
      hurried_ = true;
      return Hurried{};
    }
    return Passed{};
  }

  void step() {
    const Event event = next();
    const Life before = life_;
    const Do act = after(life_, manner_, event, now_);
    RC_ASSERT(life_.rung >= before.rung);
    RC_ASSERT(before.phase == Phase::running || life_.phase != Phase::running);
    if (act.send) {
      if (act.send->signal == Signal::kill && before.phase == Phase::running && before.rung < Rung::kill && !hurried_ &&
          !std::holds_alternative<Ended>(event))
        RC_ASSERT(term_ && now_ - *term_ >= manner_.patience);   // never KILL without TERM and the patience
      obey(act.send->signal);
    }
    if (act.name) ++named_;
    if (act.look) todo_.push_back(look());
    if (life_.phase == Phase::over) is_over();
    // Without a deadline something outside must be able to move it.
    if (!life_.deadline() && todo_.empty())
      RC_ASSERT(life_.phase == Phase::running || life_.phase == Phase::lingering || life_.phase == Phase::over);
    if (life_.deadline() && todo_.empty() && std::holds_alternative<Passed>(event))
      RC_ASSERT(*life_.deadline() > now_);       // else a busy loop
  }

  void obey(Signal signal) {
    stopped_ = signal == Signal::stop;
    if (signal == Signal::interrupt && obeys_interrupt_) command_ = false;
    if (signal == Signal::terminate) {
      if (!term_) term_ = now_;
      if (obeys_terminate_) command_ = false;
      if (rest_obeys_) rest_ = 0;
    }
    if (signal == Signal::kill) {
      command_ = false;
      if (!rest_cannot_die_) rest_ = 0;
    }
  }

  Looked look() {
    if (rest_ == 0 && !command_) return {chance(90) ? Left::nothing : Left::unsure};
    return {chance(80) ? Left::something : Left::unsure, stopped_ && chance(60)};
  }

  void is_over() const {
    RC_ASSERT(!command_);
    RC_ASSERT(rest_ == 0 || (life_.survived && rest_cannot_die_));
    RC_ASSERT(!stopped_ || rest_ == 0);
  }

  std::mt19937 dice_;
  Manner manner_;
  Life life_;
  SteadyTime now_{};
  std::vector<Event> todo_;
  bool command_ = true, stopped_ = false, obeys_interrupt_ = false, obeys_terminate_ = false, ends_by_itself_ = false;
  bool rest_obeys_ = false, rest_cannot_die_ = false, hurried_ = false;
  unsigned rest_ = 0;
  int named_ = 0;
  SteadyTime ends_{};
  std::optional<SteadyTime> term_;
};

RC_GTEST_PROP(Ending, EachLifeEndsAsItMust, ()) {
  World(*rc::gen::noShrink(rc::gen::resize(100, rc::gen::arbitrary<std::uint32_t>()))).live();
}

}  // namespace
}  // namespace thole::plan
