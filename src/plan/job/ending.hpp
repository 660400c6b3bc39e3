// One life of a command, from its start until nothing of it is left: its time limit, the ladder INT, TERM, KILL, pauses, and
// what becomes of the processes it leaves behind. `now` and what happened come in; what is to be done goes out, and somebody
// else does it. A Life is a small value without heap: thousands a second cost nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "base/time.hpp"
#include "model/command.hpp"

namespace thole::plan {

// How long helpers of a command that end by themselves with it (a pipe's other end, Python's resource tracker) may take. Only
// what lives longer is left behind.
inline constexpr Millis settling_moment{200};

// How long what has been killed is waited for at least: a busy machine takes its time to end it; and when it is killed again,
// for some fork faster than they are found.
inline constexpr Millis patience_with_killed{2000}, kill_again{100};

enum class Phase : std::uint8_t {
  running,    // the command itself
  settling,   // it has ended; helpers that end with it get a moment
  lingering,  // what it left behind is waited for
  ending,     // … or is being ended
  over,
};

// INT goes to its process group, TERM and KILL to all that came of it.
enum class Rung : std::uint8_t { none, interrupt, terminate, kill };

enum class Why : std::uint8_t { none, time_limit, released, cancelled, halted, interrupted };

// What becomes of the processes that outlive the command.
enum class Leaves : std::uint8_t {
  end,     // TERM, then KILL
  linger,  // waited for
  kill,    // KILL at once
};

// What run, map, the queue and groups want otherwise.
struct Manner {
  std::optional<Millis> limit{};                 // of its running time, and of what lingers
  Millis patience = model::usual_patience;        // between two rungs
  Leaves leaves = Leaves::end;
};

struct Ended { bool alone = false; };            // the command has; alone: nothing else can be left of it
struct Asked { Why why{}; Rung from = Rung::interrupt; };   // to end, beginning with this rung
struct Hurried {};                               // the user once more: the next rung at once; of what is left behind, KILL
struct Extended { SteadyTime limit; };
struct Paused { bool on = false; };
struct Slept { Millis length{}; };               // we stood still ourselves (Ctrl-Z): no time has passed
// The answer to Do::look. still: all are stopped, and nobody is new since the look before.
struct Looked { model::Left left{}; bool still = false; };
struct Stirred {};                               // some of what may be its rest has come or gone
struct Passed {};                                // deadline() has
using Event = std::variant<Ended, Asked, Hurried, Extended, Paused, Slept, Looked, Stirred, Passed>;

struct Send { model::Signal signal{}; model::SentTo to{}; };

// In this order.
struct Do {
  bool name = false;                             // say who is left behind
  std::optional<Send> send = std::nullopt;
  bool go_on = false;                            // CONT to all that came of it, which a pause has stopped
  bool look = false;                             // at what is left of it; tell Looked
};

struct Life {
  Phase phase = Phase::running;
  Rung rung = Rung::none;
  Why why = Why::none;                           // the first reason
  bool paused = false;
  bool halting = false;                          // paused, and not all of it stands still yet
  bool all_end = false;                          // with it: then a command that KILL does not end is given up, too
  bool survived = false;                         // something of it could not be ended, or not be seen
  std::optional<SteadyTime> limit, next, give_up;   // of its running time, of the next step, with what KILL does not end
  std::optional<SteadyTime> kill_due;            // for what is left: its command had heard TERM
  Millis left{0};                                // of the limit while paused
  Millis pause{0};                               // until the next look, or KILL

  std::optional<SteadyTime> deadline() const;    // nothing: only an event moves it
};

Life born(const Manner& manner, SteadyTime now);

// What is to be done after `event`. What cannot happen in a phase changes nothing.
[[nodiscard]] Do after(Life& life, const Manner& manner, const Event& event, SteadyTime now);

}  // namespace thole::plan
