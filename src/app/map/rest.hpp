// What tasks of `map` have left behind outside of their process groups: named and ended before GPUs are given back, in the
// steps of `thole run`: a moment to end by itself, TERM, after the patience KILL. What that does not end is given up.
//
// Each process is ended by one clock alone. Who shows a lane's claim is that lane's, from the end of the lane's last task on.
// Who shows none of any lane may be anybody's: as long as a task runs the lanes wait for who shows none at all, and then all of
// these are ended as one.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "port/task_pool.hpp"

namespace thole::app {

inline constexpr Millis found_anew{1000};  // with nothing left as long as that, what is found next is another

struct RestRound {
  port::TaskStrays& pool;
  const port::Strays& left;              // what all of them are judged by: one process may be found by one look in many
  SteadyTime now{};
  Millis patience{};
  std::function<void(const std::vector<std::string>&)> tell;   // may be empty, and the next one too
  std::function<void(const std::vector<std::string>&)> tell_out_of_reach = {};
};

// The steps against one set of processes. It is named before it gets a signal, whatever the hurry.
class RestEnd {
 public:
  // Is nothing left (or given up)? Else the next step is taken where it is time; ask again at deadline(), and whenever the pool
  // wakes.
  bool is_over(const port::Whose& whose, const std::vector<std::string>& left, const RestRound& round);

  void wait(SteadyTime now);             // a moment, without a step; the next one is the first again
  void begin_anew();

  std::optional<SteadyTime> deadline() const { return deadline_; }
  bool given_up() const { return step_ == Step::given_up; }
  void hurry(SteadyTime now);            // who waits has asked a second time: KILL, of what is found later too

 private:
  enum class Step { none, settling, asked, killed, given_up };
  Step step_ = Step::none;
  bool named_ = false, hurried_ = false;
  std::optional<SteadyTime> deadline_, give_up_, empty_since_;
};

// Those of one lane, whose tasks have ended.
class LaneRest {
 public:
  bool is_over(const std::string& claim, const RestRound& round);
  std::optional<SteadyTime> deadline() const { return end_.deadline(); }
  bool given_up() const { return end_.given_up(); }
  void hurry(SteadyTime now) { end_.hurry(now); }

 private:
  RestEnd end_;
};

// Those of no lane.
class NobodysRest {
 public:
  // `lanes`: the claims of all lanes, and of those that have gone and given up on some: what was looked for. `tasks_run`: any.
  bool is_over(const std::vector<std::string>& lanes, bool tasks_run, const RestRound& round);
  void a_task_begins() { end_.begin_anew(); }   // what that will leave behind has all its time
  std::optional<SteadyTime> deadline() const { return end_.deadline(); }
  void hurry(SteadyTime now) { end_.hurry(now); }

 private:
  RestEnd end_;
};

}  // namespace thole::app
