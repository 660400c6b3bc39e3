#include "app/map/loop.hpp"

#include <algorithm>
#include <utility>

#include "app/claim/command_life.hpp"
#include "app/claim/door.hpp"
#include "app/claim/new_end.hpp"
#include "base/error.hpp"
#include "base/ours.hpp"
#include "base/printable_lines.hpp"
#include "base/refusal.hpp"
#include "base/text.hpp"
#include "base/want.hpp"

namespace thole::app {

namespace {

constexpr std::size_t most_shared_lanes = 4096;  // memory budgets say when there is no room for more

}  // namespace

void Map::fill() {
  while (!idle_.empty() && !wants_ && !stalled_) {
    const std::size_t number = idle_.back();
    if (MapLane& lane = *bays_[number].lane; std::exchange(lane.asked_in, round_) != round_ && wanted_by_others(lane)) {
      take_no_more(lane);                // they came while it had no task for the bay
      continue;
    }
    if (tasks_.may_come() && !sees_its_gpus(*bays_[number].lane)) continue;
    if (stop_ != Stop::no || !tasks_.next(bays_[number].task)) break;
    idle_.pop_back();
    start(number);
  }
}

// GPUs may have come since.
void Map::make_room() {
  const model::Request& request = wanted_.lane.request;
  const Observer* seen = std::exchange(as_of_, list_.looks()) == list_.looks() ? nullptr : list_.seen();
  if (seen && request.on.empty() && !request.share)
    most_lanes_ = std::max(most_lanes_, seen->units().size() / std::max(1u, request.gpus));
}

// A lane whose GPU has left the driver's list gives it back: it lines up for one anew.
bool Map::sees_its_gpus(MapLane& lane) {
  try {
    if (lane.gain.variables.renew(list_, lane.gain.acquired)) ++lane.renewals;
    make_room();
    return true;
  } catch (const DriverTrouble& error) {
    caution(fmt::format("{}; its lane lines up again", in_one_line(error.without_hint())));
    take_no_more(lane);
    return false;
  }
}

void Map::hear_reader() {
  stalled_ = events_.is_stalled && events_.is_stalled();
  pool_.keep_texts(stalled_);
}

// A lane more while there is a task for it and room; GPUs without a task are not kept from others.
void Map::claim_or_give_back() {
  if (stop_ == Stop::no) tasks_.look_ahead();
  const bool waiting = stop_ == Stop::no && tasks_.any() && !stalled_;
  std::optional<RestLook> look;
  for (std::size_t i = lanes_.size(); i-- > 0;)
    if (MapLane& lane = *lanes_[i]; lane.busy == 0 && (lane.leaving || !waiting) && is_left(lane, look)) close_lane(lane);
  if (!waiting) {
    if (claims_.asked()) claims_.withdraw();
    return;
  }
  const bool room = lanes_.size() < (wanted_.lanes == 0 ? most_lanes_ : std::min<std::size_t>(wanted_.lanes, most_lanes_));
  const bool useful = lanes_.empty() || (!whole_claim_used_ && !no_more_lanes_ && wanted_.lane.request.gpus > 0);
  if (idle_.empty() && !claims_.asked() && room && useful) claims_.ask();
}

void Map::lane_won() {
  if (!claims_.asked()) return;
  try {
    open_lane(claims_.take());
    no_more_lanes_ = false;
  } catch (const Error& error) {
    if (lanes_.empty()) throw;
    no_more_lanes_ = true;
    caution("no more GPUs for now: " + in_one_line(error.full()));
  }
}

void Map::open_lane(LaneGain gain) {
  auto lane = std::make_unique<MapLane>();
  lane->gain = std::move(gain);
  const std::size_t each = std::max(1u, wanted_.lane.request.gpus);
  most_lanes_ = wanted_.lane.request.share ? most_shared_lanes : std::max(most_lanes_, lane->gain.most_units / each);
  whole_claim_used_ = whole_claim_used_ || lane->gain.acquired.claim.is_all_of_another();
  std::optional<WallTime> until;
  if (wanted_.lane.request.time) until = ports_.site.clock.wall() + *wanted_.lane.request.time;
  lane->door = open_door(ports_.make_door, ports_.site, lane->gain.acquired, until, events_.claims.caution,
                         [this, lane = lane.get()] { return is_ending(*lane, bays_); });
  if (lane->door) pool_.watch(lane->door->fd());
  for (unsigned rank = 0; rank < wanted_.per_lane; ++rank) {
    const std::size_t number = pool_.open(spec_for(*lane, rank));
    if (number >= bays_.size()) bays_.resize(number + 1);
    bays_[number] = {};
    bays_[number].lane = lane.get();
    bays_[number].rank = rank;
    lane->bays.push_back(number);
  }
  lane->asked_in = round_;               // it has only begun
  idle_.insert(idle_.end(), lane->bays.rbegin(), lane->bays.rend());
  lanes_.push_back(std::move(lane));
}

port::ProcessSpec Map::spec_for(MapLane& lane, unsigned rank) {
  port::ProcessSpec spec = spec_with(lane.gain.acquired, lane.gain.variables.now(), wanted_.lane.carry);
  if (lane.gain.binding)
    put_into(spec, *lane.gain.binding, rank, [this, &lane](const ReadBack& answer) {
      if (events_.claims.bound) events_.claims.bound(*lane.gain.binding, answer);
    });
  return spec;
}

// By all that its tasks have started: only then may others have its GPUs.
bool Map::is_left(MapLane& lane, std::optional<RestLook>& look) {
  if (!look) {
    look.emplace();
    look->claims = given_up_;
    for (const auto& one : lanes_) look->claims.push_back(one->gain.acquired.claim.id());
    look->left = pool_.strays(look->claims);
    if (!look->left.spared.empty()) caution(spared_text(look->left.spared));
  }
  const RestRound round{pool_, look->left, now(), wanted_.patience, [this](const auto& left) { tell_left_behind(left); },
                        [this](const auto& others) { tell_out_of_reach(others); }};
  if (!look->by_nobodys) look->by_nobodys = nobodys_.is_over(look->claims, busy() > 0, round);
  if (lane.rest.is_over(lane.gain.acquired.claim.id(), round) && *look->by_nobodys) return true;
  take_no_more(lane);
  timed_ = true;
  return false;
}

void Map::take_no_more(MapLane& lane) {
  lane.leaving = true;
  std::erase_if(idle_, [&](std::size_t one) { return bays_[one].lane == &lane; });
}

void Map::close_lane(MapLane& lane) {
  for (const std::size_t number : lane.bays) {
    std::erase(idle_, number);
    bays_[number].lane = nullptr;
    pool_.close(number);
  }
  if (lane.door) pool_.unwatch(lane.door->fd());
  if (lane.rest.given_up() || lane.gave_up) given_up_.push_back(lane.gain.acquired.claim.id());
  lane.gain.acquired.claim.release();            // free before anybody is told so
  if (lane.door) lane.door->let_go();
  no_more_lanes_ = false;
  std::erase_if(lanes_, [&lane](const auto& one) { return one.get() == &lane; });
}

void Map::start(std::size_t number) {
  MapBay& bay = bays_[number];
  MapLane& lane = *bay.lane;
  bay.task.bay = number + 1;
  ++bay.task.tries;
  ++lane.busy;
  ports_.command.fill({bay.task.cells, bay.task.number, bay.task.bay}, pool_.words(number));
  bay.life = plan::born(manner_, now());
  bay.how = {};
  bay.task.started = ports_.site.clock.wall();
  bay.started = now();
  bay.took = {};
  bay.cut_short = false;
  bay.owed.reset();
  try {
    begin(bay, number);
  } catch (const Error& error) {
    if (is_want(error.sys_errno()) && busy() > 1) return put_off(bay, number);
    bay.how.exit_code = exit_status(error.code());
    finish(number, error.full());
  }
}

// It has not run, and will when the end of another has given back what it wants for.
void Map::put_off(MapBay& bay, std::size_t number) {
  vacate(bay, number);
  wants_ = true;
  --bay.task.tries;
  tasks_.put_off(std::move(bay.task));
}

void Map::begin(MapBay& bay, std::size_t number) {
  MapLane& lane = *bay.lane;
  if (wanted_.lane.request.time) {
    timed_ = true;
    declare(lane, last_end(lane));
  }
  if (std::exchange(bay.as_of, lane.renewals) != lane.renewals) pool_.open(spec_for(lane, bay.rank), number);
  nobodys_.a_task_begins();
  pool_.start(number);
}

void Map::declare(const MapLane& lane, std::optional<WallTime> until) const {
  if (timed_ && lane.holds()) declare_end(ports_.site, lane.gain.acquired, lane.door.get(), until);
}

std::optional<WallTime> Map::last_end(const MapLane& lane) const {
  const auto last = last_limit(lane, bays_);
  if (!last) return std::nullopt;
  return ports_.site.clock.wall() + std::chrono::duration_cast<Millis>(*last - now());
}

void Map::handle(const port::PoolEvent& event) {
  switch (event.kind) {
    case Kind::ended: return command_ended(event.bay, event);
    case Kind::alone:
      if (bays_[event.bay].life) finish(event.bay);
      return;
    case Kind::text:
      if (events_.text) events_.text(bays_[event.bay].task, event.errors, event.bytes);
      return;
    case Kind::signal: return signalled(event.number);
    case Kind::readable:
      if (event.number == claims_.fd()) return lane_won();
      for (const auto& lane : lanes_)
        if (lane->door && lane->door->fd() == event.number) return asked_at_door(*lane);
  }
}

void Map::command_ended(std::size_t number, const port::PoolEvent& event) {
  MapBay& bay = bays_[number];
  bay.took = now() - bay.started;
  bay.how.exit_code = event.how.exit_code;
  bay.how.signal = event.how.signal;
  bay.how.core = event.how.core;
  note_why(bay);
  if (!event.left_group) return finish(number);
  leave_rest(number);
}

void Map::finish(std::size_t number, std::string problem) {
  MapBay& bay = bays_[number];
  MapEnd end{bay.how, std::move(problem), bay.took, pool_.take_output(number), pool_.words(number), bay.lane->gain.acquired};
  if (!end.output.cut.empty() && end.problem.empty())
    end.problem = fmt::format("its output may not be all: {} (make room, or: TMPDIR=DIR, --line-buffer, -u)", end.output.cut);
  const bool succeeded = end.succeeded();
  vacate(bay, number);                   // first: what is told may fail
  if (events_.text_ends) events_.text_ends(bay.task);
  if (stop_ == Stop::now && bay.cut_short) {
    ++outcome_.cut_short;
  } else if (!succeeded && bay.task.tries < wanted_.tries) {
    tasks_.again(std::move(bay.task));
  } else {
    const int status = end.status();
    ++(succeeded ? outcome_.counts.succeeded : outcome_.counts.failed);
    if (events_.ended) events_.ended(bay.task, std::move(end));
    if (stop_ == Stop::no && plan::must_halt(wanted_.halt, outcome_.counts)) {
      outcome_.halted_by = status;
      stop_ = wanted_.halt.when == plan::Halt::When::now ? Stop::now : Stop::soon;
      if (stop_ == Stop::now) end_tasks(false);
    }
  }
}

void Map::vacate(MapBay& bay, std::size_t number) {
  MapLane& lane = *bay.lane;
  bay.life.reset();
  --lane.busy;
  wants_ = false;
  lane.asked_in = round_;
  if (!lane.leaving && wanted_by_others(lane)) take_no_more(lane);
  if (!lane.leaving) idle_.push_back(number);
}

// Our own thread may be among those who wait: more lanes than one may be had. And who let us go first, for the end that we had
// declared, does not wait for a further task.
bool Map::wanted_by_others(MapLane& lane) {
  if (!lane.holds()) return false;
  if (const auto& limit = wanted_.lane.request.time)
    if (!may_end_at(store_of(lane), ports_.site, lane.gain.acquired, ports_.site.clock.wall() + *limit)) return true;
  return !std::ranges::all_of(store_of(lane).wanted_by(lane.gain.acquired.claim), is_this_process);
}

std::optional<SteadyTime> Map::next_deadline() const {
  std::optional<SteadyTime> first;
  if (!timed_) return first;
  const auto consider = [&](std::optional<SteadyTime> next) {
    if (next && (!first || *next < *first)) first = next;
  };
  for (const MapBay& bay : bays_)
    if (bay.life) consider(bay.life->deadline());
  for (const auto& lane : lanes_) consider(lane->rest.deadline());
  if (!lanes_.empty()) consider(nobodys_.deadline());
  return first;
}

// Until something happens; it is handled. However late we hear of it: a task that has ended in its time is not told that
// this is over.
void Map::sleep(void (Map::*heed)(const port::PoolEvent&)) {
  const auto hear = [&](std::optional<SteadyTime> until) {
    happened_ = pool_.wait(until);
    while (const auto event = next_event()) (this->*heed)(*event);
  };
  hear(next_deadline());
  const SteadyTime time = now();
  if (const auto deadline = next_deadline(); deadline && *deadline <= time) {
    hear(time);
    deadlines_passed(time);
  }
  if (std::exchange(reach_unknown_, false)) tell_out_of_reach(pool_.out_of_reach());
}

MapOutcome Map::run() {
  try {
    run_all();
    outcome_.cut_short += tasks_.left_to_try();
    if (!outcome_.interrupted) outcome_.failure = tasks_.failure();
  } catch (...) {
    outcome_.failure = std::current_exception();
    end_everything();
  }
  return outcome_;
}

void Map::run_all() {
  if (ports_.command.fixed_program()) pool_.check_program(wanted_.lane.argv.front());  // not after hours in line
  for (;;) {
    hear_reader();
    fill();
    claim_or_give_back();
    if (over()) break;
    ++round_;
    sleep(&Map::handle);
  }
}

MapOutcome map(MapPorts ports, const MapRequest& wanted, const MapEvents& events) {
  return Map(ports, wanted, events).run();
}

}  // namespace thole::app
