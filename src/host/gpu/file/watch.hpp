// Real processes that a simulated machine names with "watch": true, followed until they end.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>

#include "model/machine.hpp"

namespace thole::host {

class Watch {
 public:
  explicit Watch(std::string proc = "/proc") : proc_(std::move(proc)) {}

  // Follows the watched processes of these GPUs from now on. One that was followed before keeps its start time: a pid that has
  // been given to another process in between counts as ended.
  void follow(const std::vector<model::Gpu>& gpus);

  // Whether one of them has ended since the last call.
  bool news();

  // Takes the ended ones and their memory out of the use.
  void apply(std::vector<model::Gpu>& gpus) const;

 private:
  struct Life {
    std::uint64_t start_ticks = 0;      // field 22 of /proc/<pid>/stat
    bool ended = false;
  };
  std::uint64_t start_of(pid_t pid) const;  // 0 when there is no such living process
  void follow(const model::Use& use, std::map<pid_t, Life>& now) const;
  void apply(model::Use& use) const;

  std::string proc_;
  std::map<pid_t, Life> lives_;
};

}  // namespace thole::host
