// How much work something may cost that strangers can make as long as they like.
#pragma once

#include <chrono>
#include <optional>

namespace thole::host {

std::chrono::nanoseconds time_worked();   // by this thread

// Has this thread worked for longer than that? Time in which others had the processor does not count: it makes nobody's files
// slow. (The thread's clock costs a system call; it is asked only when by the clock on the wall the limit is over.)
class Allowance {
 public:
  explicit Allowance(std::chrono::nanoseconds limit);
  bool over();

 private:
  std::chrono::nanoseconds limit_, begin_;
  std::optional<std::chrono::nanoseconds> worked_;   // when the clock on the wall said so
};

}  // namespace thole::host
