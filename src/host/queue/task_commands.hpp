// The tasks of one lane as processes of this machine: the real implementation of port::Commands for a queue.
//
// How it works. A lane has no terminal: all signals are blocked, and SIGCHLD and SIGTERM are looked for, on descriptors. Each
// task has a process group of its own. As subreaper the lane inherits what a task leaves behind; whose it is, its process group
// or its mark in the environment tells (or, with a single task, nobody else's it can be).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/signals.hpp"
#include "host/process/tree.hpp"
#include "host/process/watched.hpp"
#include "port/commands.hpp"

namespace thole::host {

class TaskCommands : public port::Commands {
 public:
  explicit TaskCommands(const InheritedSignals& inherited);   // blocks all signals as long as it lives

  pid_t start(port::Bay bay, const port::ProcessSpec& spec) override;   // THOLE_TASK of `spec` is its mark
  std::vector<std::string> send(port::Bay bay, model::Signal signal, model::SentTo to) override;
  port::Rest look(port::Bay bay, port::Names names) override;
  void let_go(port::Bay bay) override { tasks_.erase(bay); }
  void watch(int fd, bool on) override { watched_.watch(fd, on); }
  std::span<const port::CommandEvent> wait(std::optional<SteadyTime> deadline) override;

  std::function<void(const port::CommandEnded&)> before_burial;   // told first, and once more by wait(); may be empty

 private:
  struct Kept {
    pid_t pid = 0;                               // of the command, until it has ended
    pid_t group = 0;                             // that it was started in
    std::string mark;
    std::optional<Stopping> stopping;            // while it is paused
    OnceEach told;
    ToldOnce out_of_reach;
  };

  void reap();
  bool is_alone(const Kept& task) const;
  bool is_childless() const;
  bool is_of(const Kept& task, const ProcessStat& left) const;
  bool is_of_another_lane(pid_t child) const;
  std::vector<ProcessStat> tree(const Kept& task, std::vector<ProcessStat>* others = nullptr) const;   // what lives of it

  const InheritedSignals& inherited_;
  AllSignalsBlocked blocked_;
  Fd children_, term_;                           // readable when one has ended, and when we are told to
  const bool kernel_lists_children_ = listed_children().has_value();
  std::map<port::Bay, Kept> tasks_;
  std::string of_lane_;                          // what all our marks end with: the number of this lane, and its queue
  Watched watched_;
  std::vector<port::CommandEvent> events_;
};

}  // namespace thole::host
