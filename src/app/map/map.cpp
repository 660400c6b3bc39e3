#include "app/map/map.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "app/claim/command_life.hpp"
#include "app/claim/door.hpp"
#include "app/claim/new_end.hpp"
#include "app/map/claims.hpp"
#include "app/map/seats.hpp"
#include "app/queue/task_text.hpp"
#include "base/error.hpp"
#include "base/ours.hpp"
#include "base/printable_lines.hpp"
#include "base/text.hpp"
#include "base/want.hpp"

namespace thole::app {

namespace {

using Kind = port::PoolEvent::Kind;

void note_why(MapSeat& seat) {
  const plan::Why why = seat.life->why;
  put_why(seat.how, why);
  seat.cut_short = why == plan::Why::interrupted || why == plan::Why::halted;
}

constexpr std::size_t most_shared_lanes = 4096;  // memory budgets say when there is no room for more

class Map {
 public:
  Map(MapPorts& ports, const MapRequest& wanted, const MapEvents& events)
      : ports_(ports), wanted_(wanted), events_(events), pool_(ports.pool),
        claims_(ports.run.site, ports.run.bind, wanted.lane, wanted.per_lane, events.claims) {
    pool_.watch(claims_.fd());
    if (events_.goes_on >= 0) pool_.watch(events_.goes_on);
  }

  MapOutcome run();
  void end_everything();                 // after a failure of ours

 private:
  enum class Stop { no, soon, now };

  bool over() const { return lanes_.empty() && !claims_.asked() && (stop_ != Stop::no || !has_task()); }
  bool has_task() const { return !again_.empty() || ahead_ || (!items_over_ && waits_for_items_); }
  void look_ahead();
  bool next_task(MapTask& task);
  void fill();
  void claim_or_give_back();
  void hear_reader();
  void open_lane(LaneGain gain);
  bool is_left(MapLane& lane, std::optional<RestLook>& look);
  void close_lane(MapLane& lane);
  void lane_won();
  void start(std::size_t place);
  void begin(MapSeat& seat, std::size_t place);
  std::optional<WallTime> last_end(const MapLane& lane) const;
  void declare(const MapLane& lane, std::optional<WallTime> until) const;   // an end, to others
  bool is_ending(const MapLane& lane) const;
  void put_off(MapSeat& seat, std::size_t place);
  unsigned busy() const {
    unsigned all = 0;
    for (const auto& lane : lanes_) all += lane->busy;
    return all;
  }
  void handle(const port::PoolEvent& event);
  void handle_quietly(const port::PoolEvent& event);
  void command_ended(std::size_t place, const port::PoolEvent& event);
  void finish(std::size_t place, std::string problem = {});
  void vacate(MapSeat& seat, std::size_t place);
  void signalled(int number);
  void asked_at_door(MapLane& lane);
  void end_tasks(bool at_once);
  void deadlines_passed();
  void tell(std::size_t place, const plan::Event& event);
  void name(std::size_t place) const;
  void tell_left_behind(const std::vector<std::string>& left) const;
  void give_up(std::size_t place);
  void end_quietly(MapSeat& seat);
  void caution(const std::string& text) const { if (telling_ && events_.claims.caution) events_.claims.caution(text); }
  void tell_out_of_reach(const std::vector<std::string>& all) const { if (!all.empty()) caution(out_of_reach_text(all)); }
  bool wanted_by_others(MapLane& lane);
  void take_no_more(MapLane& lane);
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
  std::vector<std::unique_ptr<MapLane>> lanes_;
  std::vector<MapSeat> seats_;              // by place
  std::vector<std::size_t> idle_;
  std::deque<MapTask> again_;
  std::optional<MapTask> ahead_;         // the next item, read already
  std::uint64_t numbers_ = 0, orders_ = 0;
  bool items_over_ = false, waits_for_items_ = false;
  int items_watched_ = -1;
  std::uint64_t turn_ = 0;               // one a wait
  std::size_t most_lanes_ = 1;           // this machine has GPUs for; known with the first lane
  bool whole_claim_used_ = false;        // an outer claim without locks of our own: a second lane would be the same GPUs
  bool no_more_lanes_ = false;           // asking failed while others run
  bool wants_ = false;                   // what a process needs: an end of what runs gives some back
  bool timed_ = false;                   // some seat has a deadline
  bool reach_unknown_ = false;           // of who has got a signal: has everybody?
  bool telling_ = true;                  // else that may be what has failed
  bool held_up_ = false;                 // nobody takes what was told
  std::span<const port::PoolEvent> happened_;
  Stop stop_ = Stop::no;
  NobodysRest nobodys_;
  std::vector<std::string> given_up_;    // claims of lanes that have gone and left somebody behind all the same
  MapOutcome outcome_;
};

void Map::look_ahead() {
  if (ahead_ || items_over_ || stop_ != Stop::no) return;
  waits_for_items_ = false;
  MapTask task;
  for (;;) {
    switch (ports_.items.next(task.cells)) {
      case ItemSource::Next::end:
        items_over_ = true;
        break;
      case ItemSource::Next::later:
        waits_for_items_ = true;
        if (items_watched_ < 0) pool_.watch(items_watched_ = ports_.items.fd());
        return;
      case ItemSource::Next::item:
        task.number = ++numbers_;
        if (task.number < wanted_.done.size() && wanted_.done[task.number]) continue;
        ahead_ = std::move(task);
    }
    break;
  }
  if (items_watched_ >= 0) pool_.unwatch(std::exchange(items_watched_, -1));
}

bool Map::next_task(MapTask& task) {
  if (stop_ != Stop::no) return false;
  if (!again_.empty()) {
    task = std::move(again_.front());
    again_.pop_front();
    return true;
  }
  look_ahead();
  if (!ahead_) return false;
  std::swap(task.cells, ahead_->cells);  // the old ones' memory is used again by what comes next
  task.number = ahead_->number;
  task.order = orders_++;
  task.tries = 0;
  ahead_.reset();
  return true;
}

void Map::fill() {
  while (!idle_.empty() && !wants_ && !held_up_) {
    const std::size_t place = idle_.back();
    if (MapLane& lane = *seats_[place].lane; std::exchange(lane.asked_in, turn_) != turn_ && wanted_by_others(lane)) {
      take_no_more(lane);                // they came while it had no task for the place
      continue;
    }
    if (!next_task(seats_[place].task)) break;
    idle_.pop_back();
    start(place);
  }
}

void Map::hear_reader() {
  held_up_ = events_.is_held_up && events_.is_held_up();
  pool_.hold_texts(held_up_);
}

// A lane more while there is a task for it and room; GPUs without a task are not kept from others.
void Map::claim_or_give_back() {
  look_ahead();
  const bool waiting = stop_ == Stop::no && (!again_.empty() || ahead_) && !held_up_;
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
  most_lanes_ = wanted_.lane.request.share ? most_shared_lanes : std::max<std::size_t>(1, lane->gain.most_units / each);
  whole_claim_used_ = whole_claim_used_ || lane->gain.acquired.claim.is_all_of_another();
  std::optional<WallTime> until;
  if (wanted_.lane.request.time) until = ports_.run.site.clock.wall() + *wanted_.lane.request.time;
  lane->door = open_door(ports_.run.make_door, ports_.run.site, lane->gain.acquired, until, events_.claims.caution,
                         [this, lane = lane.get()] { return is_ending(*lane); });
  if (lane->door) pool_.watch(lane->door->fd());
  for (unsigned rank = 0; rank < wanted_.per_lane; ++rank) {
    port::ProcessSpec spec = spec_with(lane->gain.acquired, lane->gain.variables, wanted_.lane.carry);
    if (lane->gain.binding)
      put_into(spec, *lane->gain.binding, rank, [this, lane = lane.get()](const ReadBack& answer) {
        if (events_.claims.bound) events_.claims.bound(*lane->gain.binding, answer);
      });
    const std::size_t place = pool_.open(std::move(spec));
    if (place >= seats_.size()) seats_.resize(place + 1);
    seats_[place].lane = lane.get();
    lane->places.push_back(place);
  }
  lane->asked_in = turn_;                // it has only begun
  idle_.insert(idle_.end(), lane->places.rbegin(), lane->places.rend());
  lanes_.push_back(std::move(lane));
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
  std::erase_if(idle_, [&](std::size_t one) { return seats_[one].lane == &lane; });
}

void Map::close_lane(MapLane& lane) {
  for (const std::size_t place : lane.places) {
    std::erase(idle_, place);
    seats_[place].lane = nullptr;
    pool_.close(place);
  }
  if (lane.door) pool_.unwatch(lane.door->fd());
  if (lane.rest.given_up() || lane.gave_up) given_up_.push_back(lane.gain.acquired.claim.id());
  lane.gain.acquired.claim.release();            // free before anybody is told so
  if (lane.door) lane.door->let_go();
  no_more_lanes_ = false;
  std::erase_if(lanes_, [&lane](const auto& one) { return one.get() == &lane; });
}

void Map::start(std::size_t place) {
  MapSeat& seat = seats_[place];
  MapLane& lane = *seat.lane;
  seat.task.place = place + 1;
  ++seat.task.tries;
  ++lane.busy;
  ports_.command.fill({seat.task.cells, seat.task.number, seat.task.place}, pool_.words(place));
  seat.life = plan::born(manner_, now());
  seat.how = {};
  seat.task.started = ports_.run.site.clock.wall();
  seat.started = now();
  seat.took = {};
  seat.cut_short = false;
  try {
    begin(seat, place);
  } catch (const Error& error) {
    if (is_want(error.sys_errno()) && busy() > 1) return put_off(seat, place);
    seat.how.exit_code = exit_status(error.code());
    finish(place, error.full());
  }
}

// It has not run, and will when the end of another has given back what it wants for.
void Map::put_off(MapSeat& seat, std::size_t place) {
  vacate(seat, place);
  wants_ = true;
  --seat.task.tries;
  again_.push_front(std::move(seat.task));
}

void Map::begin(MapSeat& seat, std::size_t place) {
  MapLane& lane = *seat.lane;
  if (wanted_.lane.request.time) {
    timed_ = true;
    declare(lane, last_end(lane));
  }
  nobodys_.a_task_begins();
  pool_.start(place);
}

void Map::declare(const MapLane& lane, std::optional<WallTime> until) const {
  if (timed_ && lane.holds()) declare_end(ports_.run.site, lane.gain.acquired, lane.door.get(), until);
}

// Whether nothing of it can be given a later end any more.
bool Map::is_ending(const MapLane& lane) const {
  const auto ends = [&](std::size_t place) { return !seats_[place].life || seats_[place].life->rung != plan::Rung::none; };
  return lane.busy > 0 && std::ranges::all_of(lane.places, ends);
}

// Of its tasks, by their limits: one may have been extended, or have begun before the others.
std::optional<WallTime> Map::last_end(const MapLane& lane) const {
  std::optional<SteadyTime> last;
  for (const std::size_t place : lane.places)
    if (const auto& life = seats_[place].life; life && life->limit && (!last || *life->limit > *last)) last = life->limit;
  if (!last) return std::nullopt;
  return ports_.run.site.clock.wall() + std::chrono::duration_cast<Millis>(*last - now());
}

void Map::handle(const port::PoolEvent& event) {
  switch (event.kind) {
    case Kind::ended: return command_ended(event.place, event);
    case Kind::alone:
      if (seats_[event.place].life) finish(event.place);
      return;
    case Kind::text:
      if (events_.text) events_.text(seats_[event.place].task, event.errors, event.bytes);
      return;
    case Kind::signal: return signalled(event.number);
    case Kind::readable:
      if (event.number == claims_.fd()) return lane_won();
      for (const auto& lane : lanes_)
        if (lane->door && lane->door->fd() == event.number) return asked_at_door(*lane);
  }
}

void Map::command_ended(std::size_t place, const port::PoolEvent& event) {
  MapSeat& seat = seats_[place];
  seat.took = now() - seat.started;
  seat.how.exit_code = event.how.exit_code;
  seat.how.signal = event.how.signal;
  seat.how.core = event.how.core;
  note_why(seat);
  if (!event.left_group) return finish(place);
  tell(place, plan::Ended{});
}

void Map::finish(std::size_t place, std::string problem) {
  MapSeat& seat = seats_[place];
  MapEnd end{seat.how, std::move(problem), seat.took, pool_.take_output(place), pool_.words(place), seat.lane->gain.acquired};
  const bool succeeded = end.succeeded();
  vacate(seat, place);                   // first: what is told may fail
  if (events_.text_ends) events_.text_ends(seat.task);
  if (stop_ == Stop::now && seat.cut_short) {
    ++outcome_.cut_short;
  } else if (!succeeded && seat.task.tries < wanted_.tries) {
    again_.push_back(std::move(seat.task));
  } else {
    const int status = end.status();
    ++(succeeded ? outcome_.counts.succeeded : outcome_.counts.failed);
    if (events_.ended) events_.ended(seat.task, std::move(end));
    if (stop_ == Stop::no && plan::must_halt(wanted_.halt, outcome_.counts)) {
      outcome_.halted_by = status;
      stop_ = wanted_.halt.when == plan::Halt::When::now ? Stop::now : Stop::soon;
      if (stop_ == Stop::now) end_tasks(false);
    }
  }
}

void Map::vacate(MapSeat& seat, std::size_t place) {
  MapLane& lane = *seat.lane;
  seat.life.reset();
  --lane.busy;
  wants_ = false;
  lane.asked_in = turn_;
  if (!lane.leaving && wanted_by_others(lane)) take_no_more(lane);
  if (!lane.leaving) idle_.push_back(place);
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
    for (std::size_t place = 0; place < seats_.size(); ++place) tell(place, plan::Slept{length});
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
  for (std::size_t place = 0; place < seats_.size(); ++place) {
    if (at_once) tell(place, plan::Hurried{});
    else tell(place, plan::Asked{why, plan::Rung::terminate});
  }
}

void Map::asked_at_door(MapLane& lane) {
  const port::Order order = lane.door->serve();
  for (const std::size_t place : lane.places) {
    if (order.until) tell(place, plan::Extended{now() + (*order.until - ports_.run.site.clock.wall())});
    if (order.end) tell(place, plan::Asked{plan::Why::released});
  }
  if (order.end) take_no_more(lane);
}

std::optional<SteadyTime> Map::next_deadline() const {
  std::optional<SteadyTime> first;
  if (!timed_) return first;
  const auto consider = [&](std::optional<SteadyTime> next) {
    if (next && (!first || *next < *first)) first = next;
  };
  for (const MapSeat& seat : seats_)
    if (seat.life) consider(seat.life->deadline());
  for (const auto& lane : lanes_) consider(lane->rest.deadline());
  if (!lanes_.empty()) consider(nobodys_.deadline());
  return first;
}

void Map::deadlines_passed() {
  if (!timed_) return;
  const SteadyTime time = now();
  for (std::size_t place = 0; place < seats_.size(); ++place) {
    const std::optional<plan::Life>& life = seats_[place].life;
    const std::optional<SteadyTime> deadline = life ? life->deadline() : std::nullopt;
    if (deadline && *deadline <= time) tell(place, plan::Passed{});
  }
  if (std::exchange(reach_unknown_, false)) tell_out_of_reach(pool_.out_of_reach());
}

// The group alone: what has left it is the lane's rest. The pool says when nothing of it is left.
void Map::tell(std::size_t place, const plan::Event& event) {
  MapSeat& seat = seats_[place];
  if (!seat.life) return;
  timed_ = true;
  const plan::Rung before = seat.life->rung;
  plan::Do act = plan::after(*seat.life, manner_, event, now());
  for (;;) {
    if (act.name) name(place);
    if (act.send) pool_.signal(place, act.send->signal);
    if (!act.look) break;
    act = plan::after(*seat.life, manner_, plan::Looked{model::Left::something}, now());
  }
  reach_unknown_ = reach_unknown_ || (seat.life->rung != before && seat.life->rung > plan::Rung::interrupt);
  if (seat.life->phase == plan::Phase::over) give_up(place);
}

void Map::name(std::size_t place) const {
  if (const auto left = pool_.group(place); !left.empty()) tell_left_behind(left);
}

void Map::tell_left_behind(const std::vector<std::string>& left) const {
  if (telling_ && events_.claims.left_behind) events_.claims.left_behind(left, false);
}

// Its claim's locks are kept by who has a copy of them: as with `run`, the lane goes, and the GPU is free when he has none.
void Map::give_up(std::size_t place) {
  MapSeat& seat = seats_[place];
  const bool runs = !seat.how.exit_code && !seat.how.signal;
  if (runs) seat.took = now() - seat.started;
  if (runs) note_why(seat);
  seat.lane->gave_up = true;
  take_no_more(*seat.lane);
  pool_.give_up(place);
  if (telling_) finish(place);
  else end_quietly(seat);
}

MapOutcome Map::run() {
  if (ports_.command.fixed_program()) pool_.check_program(wanted_.lane.argv.front());  // not after hours in line
  for (;;) {
    hear_reader();
    fill();
    claim_or_give_back();
    if (over()) break;
    happened_ = pool_.wait(next_deadline());
    ++turn_;
    while (const auto event = next_event()) handle(*event);
    deadlines_passed();
  }
  return outcome_;
}

// Nothing is told any more: that may be what has failed.
void Map::end_everything() {
  telling_ = false;
  stop_ = Stop::now;
  pool_.hold_texts(false);
  end_tasks(false);
  while (const auto event = next_event()) handle_quietly(*event);
  claims_.withdraw();
  while (std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->busy > 0; })) {
    happened_ = pool_.wait(next_deadline());
    while (const auto event = next_event()) handle_quietly(*event);
    deadlines_passed();
  }
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
  MapSeat* seat = over ? &seats_[event.place] : nullptr;   // TERM has reached who is left of a group, KILL will
  if (seat && seat->life) end_quietly(*seat);
}

void Map::end_quietly(MapSeat& seat) {
  seat.life.reset();
  --seat.lane->busy;
}

}  // namespace

MapOutcome map(MapPorts ports, const MapRequest& wanted, const MapEvents& events) {
  Map map(ports, wanted, events);
  try {
    return map.run();
  } catch (...) {
    map.end_everything();
    throw;
  }
}

}  // namespace thole::app
