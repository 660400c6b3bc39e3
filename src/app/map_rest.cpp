#include "app/map_rest.hpp"

#include <algorithm>
#include <csignal>

namespace thole::app {
namespace {

constexpr Millis killed_end{2000};       // at least: a busy machine takes its time to end what has been killed
constexpr Millis kill_again{100};

}  // namespace

bool LaneRest::is_over(port::TaskPool& pool, const std::string& claim, bool all, SteadyTime now, Millis patience,
                       const Tell& tell) {
  const port::Strays rest = pool.strays(claim, all);
  if (rest.none()) return true;
  if (rest.told.empty() && !all) {       // another's, or ours: they end, or the last task does
    deadline_ = now + kill_again;
    return false;
  }
  if (step_ != Step::none && deadline_ && now < *deadline_) return false;
  switch (step_) {
    case Step::none:
      step_ = Step::settling;
      deadline_ = now + port::settling_time;
      return false;
    case Step::settling:
      if (tell) tell(rest.told.empty() ? std::vector<std::string>{"(processes that end and begin faster than they are read)"}
                                       : rest.told);
      pool.end_strays(claim, all, SIGTERM);
      step_ = Step::asked;
      deadline_ = now + patience;
      return false;
    case Step::asked:
      step_ = Step::killed;
      give_up_ = now + std::max(patience, killed_end);
      [[fallthrough]];
    case Step::killed:
      pool.end_strays(claim, all, SIGKILL);
      deadline_ = now + kill_again;
      return now >= *give_up_;
  }
  return false;
}

void LaneRest::hurry(SteadyTime now) {
  if (step_ == Step::none || step_ == Step::killed) return;
  step_ = Step::asked;
  deadline_ = now;
}

}  // namespace thole::app
