#include "app/map_steps.hpp"

#include <algorithm>
#include <csignal>

#include "app/map_rest.hpp"
#include "port/processes.hpp"

namespace thole::app {
namespace {

constexpr int ladder[] = {SIGINT, SIGTERM, SIGKILL};
constexpr int before_term = 1, before_kill = 2, all_sent = 3;

}  // namespace

void TaskSteps::begin() {
  *this = TaskSteps();
  phase_ = Phase::running;
}

// Where the group has got KILL with its command, what lives of it is not asked anew.
void TaskSteps::left(SteadyTime now) {
  phase_ = Phase::settling;
  sent_ = sent_ == all_sent ? before_kill : 0;
  give_up_.reset();
  deadline_ = now + port::settling_time;
}

void TaskSteps::later(SteadyTime::duration by) {
  if (deadline_) *deadline_ += by;
  if (give_up_) *give_up_ += by;
}

TaskSteps::Step TaskSteps::passed(SteadyTime now, Millis patience) {
  if (give_up_ && now >= *give_up_) return {.give_up = true};
  return phase_ == Phase::settling ? end_rest(now, patience) : next(now, patience);
}

TaskSteps::Step TaskSteps::ask(SteadyTime now, Millis patience) { return next(now, patience); }

TaskSteps::Step TaskSteps::end(bool at_once, SteadyTime now, Millis patience) {
  if (phase_ == Phase::idle) return {};
  all_end_ = true;
  if (at_once) sent_ = std::max(sent_, before_kill);
  switch (phase_) {
    case Phase::running:
      if (!at_once && sent_ == before_kill) return {};     // has had TERM, and its time runs
      sent_ = std::max(sent_, before_term);
      return next(now, patience);
    case Phase::settling: return at_once ? end_rest(now, patience) : Step{};
    case Phase::ending_rest: return at_once ? next(now, patience) : Step{};
    case Phase::idle: break;
  }
  return {};
}

TaskSteps::Step TaskSteps::end_rest(SteadyTime now, Millis patience) {
  phase_ = Phase::ending_rest;
  sent_ = std::max(sent_, before_term);
  Step step = next(now, patience);
  step.name = true;
  return step;
}

TaskSteps::Step TaskSteps::next(SteadyTime now, Millis patience) {
  const Step step{.signal = ladder[std::min(sent_, before_kill)], .again = sent_ == all_sent};
  sent_ = std::min(sent_ + 1, all_sent);
  deadline_ = now + patience;
  if (step.signal == SIGKILL && (all_end_ || phase_ == Phase::ending_rest)) {
    if (!give_up_) give_up_ = now + std::max(patience, port::killed_end);
    deadline_ = std::min(*give_up_, now + port::kill_again);
  }
  return step;
}

}  // namespace thole::app
