// A command from its start to the end of all that it has left behind: plan/job/ending.hpp says what is to be done,
// port::Commands does it. Nobody else sends a command a signal.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/time.hpp"
#include "plan/job/ending.hpp"
#include "plan/job/impatience.hpp"
#include "port/clock.hpp"
#include "port/commands.hpp"

namespace thole::app {

// Told as it happens; each may be empty. Texts are "pid command", not yet printable.
struct LifeEvents {
  std::function<void(const std::vector<std::string>&, bool waited_for)> left_behind;   // once, before it gets a signal
  std::function<void(const std::vector<std::string>&)> out_of_reach;  // the kernel does not let us signal these; each once
  std::function<void(const std::vector<std::string>&)> spared;        // at the end: may be of who was there before
  std::function<void()> unseen;                                       // there is a rest and nothing can be told of it
  std::function<void(const port::Ending&)> ending;                    // at each step towards the end
  std::function<void(plan::Rung, plan::Why)> rung{};                  // before the signals of this rung are sent
};

// Why a command has ended, as far as it was ended: of the moment of its end, for who has ended by himself was not ended by what
// comes later.
void put_why(port::Ended& how, plan::Why why);

class CommandLife {
 public:
  CommandLife(port::Commands& commands, const port::Clock& clock, port::Bay bay, const plan::Manner& manner, LifeEvents events)
      : commands_(commands), clock_(clock), bay_(bay), manner_(manner), events_(std::move(events)) {}

  pid_t begin(const port::ProcessSpec& spec);    // its pid; throws as Commands::start
  void tell(const plan::Event& event);           // Asked, Hurried, Extended, Paused, Slept
  void heard(const port::CommandEvent& event);   // its end, its rest's, a signal to us; nothing where it is another's
  void passed();                                 // looks whether the deadline has

  bool is_over() const { return life_.phase == plan::Phase::over; }
  std::optional<SteadyTime> deadline() const { return life_.deadline(); }
  plan::Why why() const { return life_.why; }
  bool is_paused() const { return life_.paused; }
  bool may_be_extended() const { return !is_over() && life_.rung == plan::Rung::none; }
  plan::Why why_it_ended() const { return why_it_ended_; }   // the command itself; none: by itself
  // Once it is over:
  const port::Ended& ended() const { return ended_; }
  bool survived() const { return life_.survived; }
  std::optional<std::uint64_t> peak_memory_kib() const { return peak_memory_kib_; }

 private:
  void name();
  void say_step(plan::Phase before);
  void finish();

  port::Commands& commands_;
  const port::Clock& clock_;
  const port::Bay bay_;
  const plan::Manner manner_;
  LifeEvents events_;
  plan::Life life_;
  plan::Impatience impatience_;
  port::Ended ended_;
  plan::Why why_it_ended_{};
  std::optional<std::uint64_t> peak_memory_kib_;
  std::optional<port::Member> first_left_;       // of what is left behind
};

// One command, and nothing else to wait for.
port::Ended live(port::Commands& commands, const port::Clock& clock, const port::ProcessSpec& spec,
                 const plan::Manner& manner = {}, LifeEvents events = {});

}  // namespace thole::app
