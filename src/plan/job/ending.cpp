#include "plan/job/ending.hpp"

#include <algorithm>

namespace thole::plan {

using model::Left;
using model::SentTo;
using model::Signal;

namespace {

constexpr Millis first_look_again{1}, longest_pause{1000};

Millis remaining(SteadyTime until, SteadyTime now) { return std::max(Millis{0}, std::chrono::ceil<Millis>(until - now)); }

Rung above(Rung rung) { return rung == Rung::kill ? rung : static_cast<Rung>(static_cast<int>(rung) + 1); }

bool is_rest(const Life& life) { return life.phase != Phase::running && life.phase != Phase::over; }

// A command is waited for as long as it lives: its GPUs are in use. Not so what it leaves behind, and who ends with all others.
void lose_patience(Life& life, const Manner& manner, SteadyTime now) {
  if (life.give_up || (life.phase == Phase::running && !life.all_end)) return;
  life.give_up = now + std::max(manner.patience, patience_with_killed);
}

Do climb(Life& life, const Manner& manner, Rung rung, SteadyTime now) {
  const bool rest = life.phase == Phase::ending, was_paused = life.paused;
  if (rung == Rung::kill) lose_patience(life, manner, now);
  if (rung == Rung::kill)
    life.pause = life.rung == Rung::kill ? std::clamp(life.pause * 2, kill_again, longest_pause) : kill_again;
  life.rung = rung;
  life.halting = life.paused = false;            // who hears INT or TERM hears CONT after it; whom INT does not reach, this one
  life.limit.reset();                            // it has done its work
  life.next = now + (rung == Rung::kill ? life.pause : manner.patience);
  if (rung == Rung::interrupt) return {.send = Send{Signal::interrupt, SentTo::group}, .go_on = was_paused};
  if (rung == Rung::terminate) return {.send = Send{Signal::terminate, SentTo::all}};
  return {.send = Send{Signal::kill, SentTo::all}, .look = rest};
}

Do finish(Life& life) {
  life.phase = Phase::over;
  life.limit.reset();
  life.next.reset();
  return {};
}

// The ladder of the rest begins at TERM, or goes on where that of the command was: then all of it has heard TERM, and KILL
// comes when it was to come. So an end takes two patiences, whatever is left.
Do end_rest(Life& life, const Manner& manner, SteadyTime now) {
  life.phase = Phase::ending;
  const Do act = climb(life, manner, manner.leaves == Leaves::kill ? Rung::kill : std::max(Rung::terminate, life.rung), now);
  if (life.rung == Rung::terminate && life.kill_due) life.next = std::max(now, *life.kill_due);
  return act;
}

Do ended(Life& life, const Manner& manner, bool alone, SteadyTime now) {
  if (life.phase != Phase::running) return {};
  if (alone) return finish(life);
  const bool was_paused = life.paused;
  if (was_paused && life.limit) life.limit = now + life.left;
  life.paused = life.halting = false;
  life.give_up.reset();
  if (manner.leaves == Leaves::kill) return end_rest(life, manner, now);
  life.phase = Phase::settling;
  if (life.rung == Rung::terminate) life.kill_due = life.next;
  life.next = now + settling_moment;
  return {.go_on = was_paused, .look = true};    // nobody else would continue what is left
}

Do asked(Life& life, const Manner& manner, const Asked& ask, SteadyTime now) {
  if (life.phase == Phase::over) return {};
  if (life.why == Why::none) life.why = ask.why;
  life.all_end = life.all_end || ask.why == Why::halted || ask.why == Why::interrupted;
  if (life.rung == Rung::kill) lose_patience(life, manner, now);
  if (life.phase == Phase::running && life.rung < ask.from) return climb(life, manner, ask.from, now);
  if (life.phase == Phase::lingering) return end_rest(life, manner, now);
  return {};                                     // after settling the rest is ended, now that there is a reason
}

Do hurried(Life& life, const Manner& manner, SteadyTime now) {
  if (life.phase == Phase::running || life.phase == Phase::ending) return climb(life, manner, above(life.rung), now);
  if (life.phase == Phase::lingering) return end_rest(life, manner, now);
  if (life.phase != Phase::settling) return {};
  const bool would_linger = manner.leaves == Leaves::linger && life.rung == Rung::none;
  if (life.why != Why::none) life.rung = Rung::kill;   // for what is left, once it is named
  else if (would_linger) life.rung = Rung::terminate;
  return {};
}

Do extended(Life& life, SteadyTime limit, SteadyTime now) {
  if (life.phase == Phase::over || life.rung != Rung::none) return {};
  life.limit = limit;
  life.left = remaining(limit, now);
  return {};
}

Do halt(Life& life) {
  life.halting = true;
  life.pause = first_look_again;
  return {.send = Send{Signal::stop, SentTo::all}, .look = true};
}

// Also what lingers, once that is known.
Do paused(Life& life, const Manner& manner, bool on, SteadyTime now) {
  const bool lingers = manner.leaves == Leaves::linger && life.why == Why::none;
  const bool may_be = life.phase == Phase::running || (lingers && is_rest(life) && life.phase != Phase::ending);
  if (!may_be || life.rung != Rung::none || life.paused == on) return {};
  life.paused = on;
  life.halting = false;
  if (on && life.limit) life.left = remaining(*life.limit, now);
  if (!on && life.limit) life.limit = now + life.left;
  if (life.phase == Phase::settling) return {};
  life.next.reset();
  return on ? halt(life) : Do{.go_on = true};
}

Do slept(Life& life, Millis length) {
  for (std::optional<SteadyTime>* time : {&life.limit, &life.next, &life.give_up, &life.kill_due})
    if (*time) **time += length;
  return {};
}

// Whether all of what is paused stands still; else once more, ever more seldom.
Do looked_at_halting(Life& life, bool still, SteadyTime now) {
  life.halting = !still;
  life.next.reset();
  if (still) return {};
  life.next = now + life.pause;
  life.pause = std::min(life.pause * 2, longest_pause);
  return {};
}

// The moment for helpers is over, and something is left.
Do settled(Life& life, const Manner& manner, Left left, SteadyTime now) {
  life.next.reset();
  const bool lingers = manner.leaves == Leaves::linger && life.why == Why::none && life.rung == Rung::none;
  Do act;
  if (lingers) {
    life.phase = Phase::lingering;
    if (life.paused) act = halt(life);
  } else if (left == Left::unseen) {             // no signal would reach it
    life.survived = true;
    act = finish(life);
  } else {
    act = end_rest(life, manner, now);
  }
  act.name = true;
  return act;
}

Do looked(Life& life, const Manner& manner, const Looked& look, SteadyTime now) {
  if (is_rest(life) && look.left == Left::nothing) return finish(life);
  if (life.halting) return looked_at_halting(life, look.still, now);
  if (!is_rest(life)) return {};
  if (life.phase == Phase::settling && life.next && now >= *life.next) return settled(life, manner, look.left, now);
  const bool hopeless = look.left == Left::unseen || (life.give_up && now >= *life.give_up);
  if (life.phase == Phase::ending && hopeless) {
    life.survived = true;
    return finish(life);
  }
  return {};
}

Do stirred(Life& life) {
  if (!is_rest(life)) return {};
  Do act{.look = true};
  if (life.phase == Phase::ending && life.rung == Rung::terminate)
    act.send = Send{Signal::terminate, SentTo::all};   // for those that were started since
  return act;
}

// The limit, the next rung, or the next look.
Do passed(Life& life, const Manner& manner, SteadyTime now) {
  if (life.limit && !life.paused && now >= *life.limit) {
    life.limit.reset();
    return asked(life, manner, {Why::time_limit}, now);
  }
  if (!life.next || now < *life.next) return {};
  if (life.halting) return {.send = Send{Signal::stop, SentTo::all}, .look = true};
  if (life.phase == Phase::running && life.give_up && now >= *life.give_up) {
    life.survived = true;
    return finish(life);
  }
  if (life.phase == Phase::running || life.phase == Phase::ending) return climb(life, manner, above(life.rung), now);
  return {.look = life.phase == Phase::settling};
}

template <class... Functions>
struct Cases : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Cases(Functions...) -> Cases<Functions...>;   // clang finds it by itself from 17 on only

}  // namespace

std::optional<SteadyTime> Life::deadline() const {
  const std::optional<SteadyTime> running = paused ? std::nullopt : limit;
  if (running && next) return std::min(*running, *next);
  return running ? running : next;
}

Life born(const Manner& manner, SteadyTime now) {
  Life life;
  if (manner.limit) life.limit = now + *manner.limit;
  return life;
}

Do after(Life& life, const Manner& manner, const Event& event, SteadyTime now) {
  return std::visit(Cases{[&](const Ended& e) { return ended(life, manner, e.alone, now); },
                          [&](const Asked& e) { return asked(life, manner, e, now); },
                          [&](const Hurried&) { return hurried(life, manner, now); },
                          [&](const Extended& e) { return extended(life, e.limit, now); },
                          [&](const Paused& e) { return paused(life, manner, e.on, now); },
                          [&](const Slept& e) { return slept(life, e.length); },
                          [&](const Looked& e) { return looked(life, manner, e, now); },
                          [&](const Stirred&) { return stirred(life); },
                          [&](const Passed&) { return passed(life, manner, now); }},
                    event);
}

}  // namespace thole::plan
