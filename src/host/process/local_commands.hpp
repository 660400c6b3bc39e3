// Commands as processes of this machine: the real implementation of port::Commands.
//
// How it works. All signals are blocked here and read from a signalfd. As subreaper we inherit what a command leaves behind,
// also daemons that left the session. In the foreground (`thole run`) there is one command at a time, in our terminal and
// process group (foreground.hpp), and where it can be had in a cgroup of its own (job_cgroup.hpp). In the background (a lane of
// a queue) each has a process group of its own, and only SIGTERM is told of. Killed outright (SIGKILL) we take nothing with us:
// commands go on, and their copies of the locks keep the claim.
//
// Whose it is what lives below us: its command's whose child it is. What was left to us, by its process group or its mark in
// the environment; or, with a single command, nobody else's it can be. What others have left to us is apart: who was there
// before, and what a killed lane of another queue has left.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "host/process/foreground.hpp"
#include "host/process/job_cgroup.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/signals.hpp"
#include "host/process/tree.hpp"
#include "host/process/watched.hpp"
#include "port/commands.hpp"

namespace thole::host {

class LocalCommands : public port::Commands {
 public:
  enum class Runs { in_foreground, in_background };

  // In the background all signals are blocked in this thread as long as it lives; in the foreground from the start of a command
  // until that is let go of.
  LocalCommands(const InheritedSignals& inherited, Runs runs);

  // THOLE_TASK of `spec` is its mark, THOLE_CLAIM the claim that what it starts shows.
  pid_t start(port::Bay bay, const port::ProcessSpec& spec) override;
  std::vector<std::string> send(port::Bay bay, model::Signal signal, model::SentTo to) override;
  port::Rest look(port::Bay bay, port::Names names) override;
  void let_go(port::Bay bay) override;
  void watch(int fd, bool on) override { watched_.watch(fd, on); }
  std::span<const port::CommandEvent> wait(std::optional<SteadyTime> deadline) override;

  std::function<void(const port::CommandEnded&)> before_burial;   // told first, and once more by wait(); may be empty

 private:
  struct Kept {
    pid_t pid = 0;                               // of the command, until it has ended
    pid_t own_group = 0;                         // that it was started in; 0: ours
    std::string mark, claim;
    std::optional<Stopping> stopping;            // while it is paused
    OnceEach told;
    ToldOnce out_of_reach;
  };

  std::unique_ptr<AllSignalsBlocked> take_signals();
  void look_for_strangers();
  void read_signals();
  void reap();
  pid_t command_in_foreground() const;
  bool is_a_command(pid_t child) const;
  bool is_alone(const Kept& kept) const;
  bool is_childless() const;
  bool is_apart(pid_t child) const;
  bool is_of_another_lane(pid_t child) const;
  bool is_spared(const ProcessStat& child) const;
  bool is_of(const Kept& kept, const ProcessStat& left) const;
  std::vector<std::string> spared() const;
  std::vector<ProcessStat> tree(const Kept& kept, std::vector<ProcessStat>* others = nullptr) const;   // what lives of it

  const InheritedSignals& inherited_;
  std::unique_ptr<AllSignalsBlocked> blocked_;
  std::unique_ptr<Foreground> foreground_;       // none: in the background
  std::unique_ptr<JobCgroup> cgroup_;            // of the command in the foreground, where it has one of its own
  Fd signals_;
  const bool kernel_lists_children_ = listed_children().has_value();
  std::map<port::Bay, Kept> kept_;
  std::vector<pid_t> strangers_;                 // children that were there before the command, until they have ended
  bool had_strangers_ = false;
  std::uint64_t since_ = 0;                      // ticks: what was started earlier is none of the command's
  Watched watched_;
  std::vector<port::CommandEvent> events_;
};

}  // namespace thole::host
