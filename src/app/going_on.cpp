#include "app/going_on.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/stream.hpp"

namespace thole::app {

namespace {

constexpr Seconds between_looks_for_files{30};
constexpr Seconds first_rest{1}, longest_rest{30};   // between starts

}  // namespace

bool has_work(port::JobWork& jobs, WallTime now) {
  return !jobs.candidates(now, 1).empty() || jobs.next_due(now) || !jobs.running().empty();
}

void keep_going(Queue queue) {
  if (!queue.door.runner_end() && has_work(queue.store, queue.clock.wall())) queue.door.stir();
}

void GoingOn::look() {
  const SteadyTime now = queue_.clock.steady();
  const bool gone = end_ && is_readable(end_.get());
  if (!gone && now < next_look_) return;
  end_ = queue_.door.runner_end();
  next_look_ = now + between_looks_for_files;
  if (!end_ && has_work(queue_.store, queue_.clock.wall())) start(now);
}

void GoingOn::start(SteadyTime now) {
  if (now < not_before_) {
    next_look_ = not_before_;
    return;
  }
  pause_ = now - not_before_ > longest_rest ? first_rest : std::clamp(pause_ * 2, first_rest, longest_rest);
  not_before_ = next_look_ = now + pause_;
  try {
    queue_.door.stir();
  } catch (const Error& error) {
    if (told_ == error.full()) return;
    told_ = error.full();
    caution_(told_);
  }
}

}  // namespace thole::app
