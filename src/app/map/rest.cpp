#include "app/map/rest.hpp"

#include <algorithm>
#include <utility>

#include "app/queue/task_text.hpp"
#include "plan/job/ending.hpp"

namespace thole::app {

using model::Signal;

bool RestEnd::is_over(const port::Whose& whose, const std::vector<std::string>& left, const RestTurn& turn) {
  if (left.empty()) {
    deadline_.reset();
    if (!empty_since_) empty_since_ = turn.now;
    return true;
  }
  // While others are waited for, one of theirs may come to be ours; but who forks without end is missed by a look now and then.
  if (empty_since_ && turn.now - *empty_since_ >= found_anew) begin_anew();
  empty_since_.reset();
  if (deadline_ && turn.now < *deadline_) return false;
  const auto end = [&](Signal signal) {
    if (turn.tell && !std::exchange(named_, true)) turn.tell(left);
    const std::vector<std::string> others = turn.pool.end_strays(whose, signal);
    if (turn.tell_out_of_reach && !others.empty()) turn.tell_out_of_reach(others);
  };
  switch (step_) {
    case Step::none:
      step_ = Step::settling;
      deadline_ = turn.now + plan::settling_moment;
      return false;
    case Step::settling:
      step_ = Step::asked;
      if (!hurried_) {
        end(Signal::terminate);
        deadline_ = turn.now + turn.patience;
        return false;
      }
      [[fallthrough]];
    case Step::asked:
      step_ = Step::killed;
      give_up_ = turn.now + std::max(turn.patience, plan::patience_with_killed);
      [[fallthrough]];
    case Step::killed:
      end(Signal::kill);
      deadline_ = turn.now + plan::kill_again;
      if (turn.now < *give_up_) return false;
      step_ = Step::given_up;
      deadline_.reset();
      turn.pool.give_up_strays(whose);           // the next lane's end neither waits for them nor names them
      return true;
    case Step::given_up: return true;
  }
  return false;
}

void RestEnd::wait(SteadyTime now) {
  begin_anew();
  deadline_ = now + plan::kill_again;
}

void RestEnd::begin_anew() {
  const bool hurried = hurried_;
  *this = RestEnd();
  hurried_ = hurried;
}

void RestEnd::hurry(SteadyTime now) {
  hurried_ = true;
  if (step_ != Step::settling && step_ != Step::asked) return;
  step_ = Step::asked;
  deadline_ = now;
}

bool LaneRest::is_over(const std::string& claim, const RestTurn& turn) {
  const auto its = turn.left.of.find(claim);
  return end_.is_over({claim}, its == turn.left.of.end() ? std::vector<std::string>() : its->second, turn);
}

bool NobodysRest::is_over(const std::vector<std::string>& lanes, bool tasks_run, const RestTurn& turn) {
  if (tasks_run) {
    if (turn.left.unknown) end_.wait(turn.now);  // another task's, or ours: they end, or the last task does
    else end_.begin_anew();
    return !turn.left.unknown;
  }
  std::vector<std::string> left = turn.left.nobodys;
  if (left.empty() && turn.left.unknown) left.emplace_back(nobody_read);
  return end_.is_over({"", lanes}, left, turn);
}

}  // namespace thole::app
