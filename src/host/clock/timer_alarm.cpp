#include "host/clock/timer_alarm.hpp"

#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/standard.hpp"
#include "base/want.hpp"

namespace thole::host {

namespace {
// Without a time there is still the clock to watch: an alarm far away.
constexpr std::time_t far_away = 4'000'000'000;
}  // namespace

TimerAlarm::TimerAlarm() : timer_(above_standard(::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK))) {
  if (!timer_) throw not_had("cannot watch the clock", errno);
}

void TimerAlarm::set(std::optional<WallTime> when) {
  itimerspec alarm{};
  alarm.it_value.tv_sec = far_away;
  if (when) {
    const auto ms = std::max<std::int64_t>(when->time_since_epoch().count(), 1);
    alarm.it_value = {static_cast<std::time_t>(ms / 1000), static_cast<long>(ms % 1000) * 1'000'000};
  }
  std::uint64_t times = 0;
  while (::read(timer_.get(), &times, sizeof times) < 0 && errno == ECANCELED) {}  // it says once that the clock was set
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &alarm, nullptr);
}

}  // namespace thole::host
