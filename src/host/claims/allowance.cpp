#include "host/claims/allowance.hpp"

#include <time.h>

namespace thole::host {
namespace {

std::chrono::nanoseconds time_by(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

std::chrono::nanoseconds time_worked() { return time_by(CLOCK_THREAD_CPUTIME_ID); }

Allowance::Allowance(std::chrono::nanoseconds limit) : limit_(limit), begin_(time_by(CLOCK_MONOTONIC)) {}

bool Allowance::over() {
  if (worked_) return time_worked() - *worked_ > limit_;
  if (time_by(CLOCK_MONOTONIC) - begin_ > limit_) worked_ = time_worked();
  return false;
}

}  // namespace thole::host
