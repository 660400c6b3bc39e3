#include "app/map/rest.hpp"

#include <algorithm>
#include <utility>

#include "app/queue/task_text.hpp"
#include "plan/job/ending.hpp"

namespace thole::app {

using model::Signal;

bool RestEnd::is_over(const port::Whose& whose, const std::vector<std::string>& left, const RestRound& round) {
  if (left.empty()) {
    deadline_.reset();
    if (!empty_since_) empty_since_ = round.now;
    return true;
  }
  // While others are waited for, one of theirs may come to be ours; but who forks without end is missed by a look now and then.
  if (empty_since_ && round.now - *empty_since_ >= found_anew) begin_anew();
  empty_since_.reset();
  if (deadline_ && round.now < *deadline_) return false;
  const auto end = [&](Signal signal) {
    if (round.tell && !std::exchange(named_, true)) round.tell(left);
    const std::vector<std::string> others = round.pool.end_strays(whose, signal);
    if (round.tell_out_of_reach && !others.empty()) round.tell_out_of_reach(others);
  };
  switch (step_) {
    case Step::none:
      step_ = Step::settling;
      deadline_ = round.now + plan::settling_moment;
      return false;
    case Step::settling:
      step_ = Step::asked;
      if (!hurried_) {
        end(Signal::terminate);
        deadline_ = round.now + round.patience;
        return false;
      }
      [[fallthrough]];
    case Step::asked:
      step_ = Step::killed;
      give_up_ = round.now + std::max(round.patience, plan::patience_with_killed);
      [[fallthrough]];
    case Step::killed:
      end(Signal::kill);
      deadline_ = round.now + plan::kill_again;
      if (round.now < *give_up_) return false;
      step_ = Step::given_up;
      deadline_.reset();
      round.pool.give_up_strays(whose);          // the next lane's end neither waits for them nor names them
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

bool LaneRest::is_over(const std::string& claim, const RestRound& round) {
  const auto its = round.left.of.find(claim);
  return end_.is_over({claim}, its == round.left.of.end() ? std::vector<std::string>() : its->second, round);
}

bool NobodysRest::is_over(const std::vector<std::string>& lanes, bool tasks_run, const RestRound& round) {
  if (tasks_run) {
    if (round.left.unknown) end_.wait(round.now);  // another task's, or ours: they end, or the last task does
    else end_.begin_anew();
    return !round.left.unknown;
  }
  std::vector<std::string> left = round.left.nobodys;
  if (left.empty() && round.left.unknown) left.emplace_back(nobody_read);
  return end_.is_over({"", lanes}, left, round);
}

}  // namespace thole::app
