// The loop of `map` (map.hpp): its lanes, the tasks on them, and what happens to both. map.cpp begins tasks and hears of their
// ends, ends.cpp ends them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/map/bays.hpp"
#include "app/map/claims.hpp"
#include "app/map/map.hpp"
#include "app/map/rest.hpp"
#include "app/map/tasks.hpp"
#include "app/queue/task_text.hpp"
#include "base/error.hpp"
#include "base/printable_lines.hpp"
#include "base/refusal.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "plan/job/ending.hpp"
#include "plan/job/impatience.hpp"
#include "port/task_pool.hpp"

namespace thole::app {

class Map {
 public:
  Map(MapPorts& ports, const MapRequest& wanted, const MapEvents& events)
      : ports_(ports), wanted_(wanted), events_(events), pool_(ports.pool),
        claims_(ports.site, ports.bind, ports.aside, wanted.lane, wanted.per_lane, events.claims),
        tasks_(ports.items, wanted.done, ports.pool, [this](const Error& why) {
          if (busy() > 0) caution("no further items are taken: " + in_one_line(why.without_hint()));
        }) {
    pool_.watch(claims_.fd());
    if (events_.goes_on >= 0) pool_.watch(events_.goes_on);
  }

  MapOutcome run();

 private:
  using Kind = port::PoolEvent::Kind;
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
  static void note_why(MapBay& bay);
  void command_ended(std::size_t number, const port::PoolEvent& event);
  void leave_rest(std::size_t number);
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
  SteadyTime now() const { return ports_.site.clock.steady(); }
  port::ClaimStore& store_of(const MapLane& lane) const { return lane.gain.acquired.store(ports_.site); }

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
  ListNow list_{ports_.site};
  unsigned as_of_ = 0;                   // its looks
  std::vector<std::unique_ptr<MapLane>> lanes_;
  std::vector<MapBay> bays_;                // by bay
  std::vector<std::size_t> idle_;
  TasksToCome tasks_;
  std::uint64_t round_ = 0;              // one a wait
  std::size_t most_lanes_ = 1;           // this machine has GPUs for; known with the first lane
  bool whole_claim_used_ = false;        // an outer claim without locks of our own: a second lane would be the same GPUs
  bool no_more_lanes_ = false;           // asking failed while others run
  bool wants_ = false;                   // what a process needs: an end of what runs gives some back
  bool timed_ = false;                   // some bay has a deadline
  bool reach_unknown_ = false;           // of who has got a signal: has everybody?
  bool telling_ = true;                  // else that may be what has failed
  bool stalled_ = false;                 // nobody takes what was told
  std::span<const port::PoolEvent> happened_;
  Stop stop_ = Stop::no;
  NobodysRest nobodys_;
  std::vector<std::string> given_up_;    // claims of lanes that have gone and left somebody behind all the same
  plan::Impatience impatience_;
  MapOutcome outcome_;
};

}  // namespace thole::app
