// How much work something may cost that strangers can make as long as they like.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
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

// What this thread has worked for the sake of each user, and of all.
class WorkOfUsers {
 public:
  template <class Work>
  auto of(uid_t user, const Work& work) {
    const auto begun = time_worked();
    auto result = work();
    const auto took = time_worked() - begun;
    spent_[user] += took;
    spent_by_all_ += took;
    return result;
  }
  std::chrono::nanoseconds spent_for(uid_t user) const {
    const auto spent = spent_.find(user);
    return spent == spent_.end() ? std::chrono::nanoseconds{} : spent->second;
  }
  std::chrono::nanoseconds spent_for_all() const { return spent_by_all_; }

 private:
  std::map<uid_t, std::chrono::nanoseconds> spent_;
  std::chrono::nanoseconds spent_by_all_{};
};

}  // namespace thole::host
