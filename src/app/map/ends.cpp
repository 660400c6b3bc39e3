// How tasks of `map` are ended, with all others or each by itself, and what is done when that is our own failure's doing.
#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>
#include <variant>

#include "app/claim/door.hpp"
#include "app/claim/new_end.hpp"
#include "app/map/loop.hpp"

namespace thole::app {

void Map::note_why(MapBay& bay) {
  const plan::Why why = bay.life->why;
  put_why(bay.how, why);
  bay.cut_short = why == plan::Why::interrupted || why == plan::Why::halted;
}

// The first one ends what runs in order; the user once more, at once.
void Map::signalled(int number) {
  if (model::Signal{number} == model::Signal::terminal_stop) {
    for (const auto& lane : lanes_) declare(*lane, std::nullopt);   // while we stand still nobody knows it
    const SteadyTime before = now();
    pool_.stop_all();
    const auto length = std::chrono::duration_cast<Millis>(now() - before);
    for (std::size_t bay = 0; bay < bays_.size(); ++bay) tell(bay, plan::Slept{length});
    for (const auto& lane : lanes_) declare(*lane, last_end(*lane));
    return;
  }
  const bool first = !outcome_.interrupted;
  const bool again = !first && impatience_.hurries(model::Signal{number}, now());
  if (first || again) impatience_.asked(now());
  if (first) outcome_.interrupted = number;
  stop_ = Stop::now;
  if (first || again) end_tasks(again);
  for (const auto& lane : lanes_)
    if (again) lane->rest.hurry(now());
  if (again) nobodys_.hurry(now());
}

void Map::end_tasks(bool at_once) {
  const plan::Why why = outcome_.interrupted ? plan::Why::interrupted : plan::Why::halted;
  for (std::size_t number = 0; number < bays_.size(); ++number) {
    if (at_once) tell(number, plan::Hurried{});
    else tell(number, plan::Asked{why, plan::Rung::terminate});
  }
}

void Map::asked_at_door(MapLane& lane) {
  const port::Order order = lane.door->serve();
  for (const std::size_t number : lane.bays) {
    if (order.until) tell(number, plan::Extended{now() + (*order.until - ports_.site.clock.wall())});
    if (order.end) tell(number, plan::Asked{plan::Why::released});
  }
  if (order.end) take_no_more(lane);
}

void Map::deadlines_passed(SteadyTime time) {
  for (std::size_t number = 0; number < bays_.size(); ++number) {
    const std::optional<plan::Life>& life = bays_[number].life;
    const std::optional<SteadyTime> deadline = life ? life->deadline() : std::nullopt;
    if (deadline && *deadline <= time) tell(number, plan::Passed{});
  }
}

// However late we hear of it: who has ended by itself before it could be asked to was not cut short, and not released.
bool Map::is_too_late(std::size_t number, const plan::Event& event) {
  const bool asks = std::holds_alternative<plan::Asked>(event) || std::holds_alternative<plan::Hurried>(event);
  return asks && bays_[number].life->phase == plan::Phase::running && pool_.has_ended(number);
}

// The group and what is below it: what has left both is the lane's rest. The pool says when nothing of it is left.
void Map::tell(std::size_t number, const plan::Event& event) {
  MapBay& bay = bays_[number];
  if (!bay.life) return;
  if (is_too_late(number, event)) {
    bay.owed = event;
    return;
  }
  timed_ = true;
  const plan::Rung before = bay.life->rung;
  plan::Do act = plan::after(*bay.life, manner_, event, now());
  for (;;) {
    if (act.name) name(number);
    if (act.send) pool_.signal(number, act.send->signal);
    if (!act.look) break;
    act = plan::after(*bay.life, manner_, plan::Looked{model::Left::something}, now());
  }
  reach_unknown_ = reach_unknown_ || (bay.life->rung != before && bay.life->rung > plan::Rung::interrupt);
  if (bay.life->phase == plan::Phase::over) give_up(number);
}

void Map::name(std::size_t number) const {
  if (const auto left = pool_.group(number); !left.empty()) tell_left_behind(left);
}

void Map::tell_left_behind(const std::vector<std::string>& left) const {
  if (telling_ && events_.claims.left_behind) events_.claims.left_behind(left, false);
}

// Its claim's locks are kept by who has a copy of them: as with `run`, the lane goes, and the GPU is free when he has none.
void Map::give_up(std::size_t number) {
  MapBay& bay = bays_[number];
  const bool runs = !bay.how.exit_code && !bay.how.signal;
  if (runs) bay.took = now() - bay.started;
  if (runs) note_why(bay);
  bay.lane->gave_up = true;
  take_no_more(*bay.lane);
  pool_.give_up(number);
  if (telling_) finish(number);
  else end_quietly(bay);
}

// Nothing is said any more: that may be what has failed.
void Map::end_everything() {
  telling_ = false;
  stop_ = Stop::now;
  pool_.keep_texts(false);
  end_tasks(false);
  while (const auto event = next_event()) handle_quietly(*event);
  claims_.withdraw();
  while (std::ranges::any_of(lanes_, [](const auto& lane) { return lane->busy > 0; })) sleep(&Map::handle_quietly);
  for (;;) {
    std::optional<RestLook> look;
    for (std::size_t i = lanes_.size(); i-- > 0;)
      if (is_left(*lanes_[i], look)) close_lane(*lanes_[i]);
    if (lanes_.empty()) break;
    happened_ = pool_.wait(next_deadline());
  }
}

// Who has ended by himself is told all the same, as far as it goes: what is in the log is not run a second time.
void Map::handle_quietly(const port::PoolEvent& event) {
  if (event.kind == Kind::signal) return signalled(event.number);
  if (event.kind != Kind::ended && event.kind != Kind::alone) return;
  if (!bays_[event.bay].life) return;
  try {
    handle(event);
  } catch (const std::exception&) {
    if (bays_[event.bay].life) end_quietly(bays_[event.bay]);
  }
}

// Its command has ended, and was perhaps asked to when it already had.
void Map::leave_rest(std::size_t number) {
  tell(number, plan::Ended{});
  if (const auto owed = std::exchange(bays_[number].owed, std::nullopt)) tell(number, *owed);
}

void Map::end_quietly(MapBay& bay) {
  bay.life.reset();
  --bay.lane->busy;
}

}  // namespace thole::app
