#include "app/map/map.hpp"

#include <algorithm>
#include <utility>

#include "app/claim/command_life.hpp"
#include "app/claim/door.hpp"
#include "app/claim/new_end.hpp"
#include "app/map/bays.hpp"
#include "app/map/claims.hpp"
#include "app/map/tasks.hpp"
#include "app/queue/task_text.hpp"
#include "base/error.hpp"
#include "base/ours.hpp"
#include "base/printable_lines.hpp"
#include "base/refusal.hpp"
#include "base/text.hpp"
#include "base/want.hpp"

namespace thole::app {

namespace {

using Kind = port::PoolEvent::Kind;

void note_why(MapBay& bay) {
  const plan::Why why = bay.life->why;
  put_why(bay.how, why);
  bay.cut_short = why == plan::Why::interrupted || why == plan::Why::halted;
}

constexpr std::size_t most_shared_lanes = 4096;  // memory budgets say when there is no room for more

class Map {
 public:
  Map(MapPorts& ports, const MapRequest& wanted, const MapEvents& events)
      : ports_(ports), wanted_(wanted), events_(events), pool_(ports.pool),
        claims_(ports.run.site, ports.run.bind, wanted.lane, wanted.per_lane, events.claims),
        tasks_(ports.items, wanted.done, ports.pool, [this](const Error& why) {
          if (busy() > 0) caution("no further items are taken: " + in_one_line(why.without_hint()));
        }) {
    pool_.watch(claims_.fd());
    if (events_.goes_on >= 0) pool_.watch(events_.goes_on);
  }

  MapOutcome run();

 private:
  enum class Stop { no, soon, now };

  bool over() const { return lanes_.empty() && !claims_.asked() && (stop_ != Stop::no || !tasks_.may_come()); }
  void fill();
  void claim_or_give_back();
  void hear_reader();
  void open_lane(LaneGain gain);
  bool is_left(MapLane& lane, std::optional<RestLook>& look);
  void close_lane(MapLane& lane);
  void lane_won();
  void start(std::size_t number);
  void begin(MapBay& bay, std::size_t number);
  port::ProcessSpec spec_for(MapLane& lane, unsigned rank);
  std::optional<WallTime> last_end(const MapLane& lane) const;
  void declare(const MapLane& lane, std::optional<WallTime> until) const;   // an end, to others
  void put_off(MapBay& bay, std::size_t number);
  unsigned busy() const {
    unsigned all = 0;
    for (const auto& lane : lanes_) all += lane->busy;
    return all;
  }
  void handle(const port::PoolEvent& event);
  void handle_quietly(const port::PoolEvent& event);
  void command_ended(std::size_t number, const port::PoolEvent& event);
  void finish(std::size_t number, std::string problem = {});
  void vacate(MapBay& bay, std::size_t number);
  void signalled(int number);
  void asked_at_door(MapLane& lane);
  void end_tasks(bool at_once);
  void sleep(void (Map::*heed)(const port::PoolEvent&));
  void deadlines_passed(SteadyTime time);
  void run_all();
  void end_everything();                 // after a failure of ours
  bool is_too_late(std::size_t number, const plan::Event& event);
  void tell(std::size_t number, const plan::Event& event);
  void name(std::size_t number) const;
  void tell_left_behind(const std::vector<std::string>& left) const;
  void give_up(std::size_t number);
  void end_quietly(MapBay& bay);
  void caution(const std::string& text) const { if (telling_ && events_.claims.caution) events_.claims.caution(text); }
  void tell_out_of_reach(const std::vector<std::string>& all) const { if (!all.empty()) caution(out_of_reach_text(all)); }
  bool wanted_by_others(MapLane& lane);
  void take_no_more(MapLane& lane);
  bool sees_its_gpus(MapLane& lane);
  void make_room();
  std::optional<SteadyTime> next_deadline() const;
  SteadyTime now() const { return ports_.run.site.clock.steady(); }
  port::ClaimStore& store_of(const MapLane& lane) const { return lane.gain.acquired.store(ports_.run.site); }

  // What happened and has not been handled: a handler may throw, and who then ends everything needs the rest.
  std::optional<port::PoolEvent> next_event() {
    if (happened_.empty()) return std::nullopt;
    const port::PoolEvent event = happened_.front();
    happened_ = happened_.subspan(1);
    return event;
  }

  MapPorts& ports_;
  const MapRequest& wanted_;
  const MapEvents& events_;
  const plan::Manner manner_{.limit = wanted_.lane.request.time, .patience = wanted_.patience};
  port::TaskPool& pool_;
  LaneClaims claims_;
  ListNow list_{ports_.run.site};
  unsigned as_of_ = 0;                   // its looks
  std::vector<std::unique_ptr<MapLane>> lanes_;
  std::vector<MapBay> bays_;                // by bay
  std::vector<std::size_t> idle_;
  TasksToCome tasks_;
  std::uint64_t turn_ = 0;               // one a wait
  std::size_t most_lanes_ = 1;           // this machine has GPUs for; known with the first lane
  bool whole_claim_used_ = false;        // an outer claim without locks of our own: a second lane would be the same GPUs
  bool no_more_lanes_ = false;           // asking failed while others run
  bool wants_ = false;                   // what a process needs: an end of what runs gives some back
  bool timed_ = false;                   // some bay has a deadline
  bool reach_unknown_ = false;           // of who has got a signal: has everybody?
  bool telling_ = true;                  // else that may be what has failed
  bool held_up_ = false;                 // nobody takes what was told
  std::span<const port::PoolEvent> happened_;
  Stop stop_ = Stop::no;
  NobodysRest nobodys_;
  std::vector<std::string> given_up_;    // claims of lanes that have gone and left somebody behind all the same
  MapOutcome outcome_;
};

void Map::fill() {
  while (!idle_.empty() && !wants_ && !held_up_) {
    const std::size_t number = idle_.back();
    if (MapLane& lane = *bays_[number].lane; std::exchange(lane.asked_in, turn_) != turn_ && wanted_by_others(lane)) {
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
  held_up_ = events_.is_held_up && events_.is_held_up();
  pool_.hold_texts(held_up_);
}

// A lane more while there is a task for it and room; GPUs without a task are not kept from others.
void Map::claim_or_give_back() {
  if (stop_ == Stop::no) tasks_.look_ahead();
  const bool waiting = stop_ == Stop::no && tasks_.any() && !held_up_;
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
  if (wanted_.lane.request.time) until = ports_.run.site.clock.wall() + *wanted_.lane.request.time;
  lane->door = open_door(ports_.run.make_door, ports_.run.site, lane->gain.acquired, until, events_.claims.caution,
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
  lane->asked_in = turn_;                // it has only begun
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
  const RestTurn turn{pool_, look->left, now(), wanted_.patience, [this](const auto& left) { tell_left_behind(left); },
                      [this](const auto& others) { tell_out_of_reach(others); }};
  if (!look->by_nobodys) look->by_nobodys = nobodys_.is_over(look->claims, busy() > 0, turn);
  if (lane.rest.is_over(lane.gain.acquired.claim.id(), turn) && *look->by_nobodys) return true;
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
  bay.task.started = ports_.run.site.clock.wall();
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
  if (timed_ && lane.holds()) declare_end(ports_.run.site, lane.gain.acquired, lane.door.get(), until);
}

std::optional<WallTime> Map::last_end(const MapLane& lane) const {
  const auto last = last_limit(lane, bays_);
  if (!last) return std::nullopt;
  return ports_.run.site.clock.wall() + std::chrono::duration_cast<Millis>(*last - now());
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
  tell(number, plan::Ended{});
  if (const auto owed = std::exchange(bay.owed, std::nullopt)) tell(number, *owed);
}

void Map::finish(std::size_t number, std::string problem) {
  MapBay& bay = bays_[number];
  MapEnd end{bay.how, std::move(problem), bay.took, pool_.take_output(number), pool_.words(number), bay.lane->gain.acquired};
  const bool succeeded = end.succeeded();
  vacate(bay, number);                   // first: what is told may fail
  if (events_.text_ends) events_.text_ends(bay.task);
  const bool goes_again = !succeeded && bay.task.tries < wanted_.tries;
  if (stop_ == Stop::now && (bay.cut_short || goes_again)) {
    ++outcome_.cut_short;
  } else if (goes_again) {
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
  lane.asked_in = turn_;
  if (!lane.leaving && wanted_by_others(lane)) take_no_more(lane);
  if (!lane.leaving) idle_.push_back(number);
}

// Our own thread may be among those who wait: more lanes than one may be had. And who let us go first, for the end that we had
// declared, does not wait for a further task.
bool Map::wanted_by_others(MapLane& lane) {
  if (!lane.holds()) return false;
  if (const auto& limit = wanted_.lane.request.time)
    if (!may_end_at(store_of(lane), ports_.run.site, lane.gain.acquired, ports_.run.site.clock.wall() + *limit)) return true;
  return !std::ranges::all_of(store_of(lane).wanted_by(lane.gain.acquired.claim), is_this_process);
}

// The first one ends what runs in order, the next one at once.
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
  const bool again = outcome_.interrupted.has_value();
  if (!again) outcome_.interrupted = number;
  stop_ = Stop::now;
  end_tasks(again);
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
    if (order.until) tell(number, plan::Extended{now() + (*order.until - ports_.run.site.clock.wall())});
    if (order.end) tell(number, plan::Asked{plan::Why::released});
  }
  if (order.end) take_no_more(lane);
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

MapOutcome Map::run() {
  try {
    run_all();
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
    ++turn_;
    sleep(&Map::handle);
  }
}

// Nothing is told any more: that may be what has failed.
void Map::end_everything() {
  telling_ = false;
  stop_ = Stop::now;
  pool_.hold_texts(false);
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

void Map::handle_quietly(const port::PoolEvent& event) {
  if (event.kind == Kind::signal) return signalled(event.number);
  const bool over = event.kind == Kind::alone || (event.kind == Kind::ended && !event.left_group);
  MapBay* bay = over ? &bays_[event.bay] : nullptr;        // TERM has reached who is left of a group, KILL will
  if (bay && bay->life) end_quietly(*bay);
}

void Map::end_quietly(MapBay& bay) {
  bay.life.reset();
  --bay.lane->busy;
}

}  // namespace

MapOutcome map(MapPorts ports, const MapRequest& wanted, const MapEvents& events) {
  return Map(ports, wanted, events).run();
}

}  // namespace thole::app
