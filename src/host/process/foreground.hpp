// One command in our own terminal and process group: the real implementation of port::Commands for `thole run`.
//
// How it works. What a terminal sends reaches the command without us. All signals are blocked here and read from a signalfd;
// one that was sent to us alone (see witness.hpp) is passed on, any other is dropped. A command that stops itself stops us by
// the same signal, so that a shell sees one job; `fg` continues both. As subreaper we inherit what the command leaves behind,
// also daemons that left the session. Killed outright (SIGKILL) we take nothing with us: the command goes on and its copies of
// the locks keep the claim.
//
// INT goes to those of its tree that are in its process group, as Ctrl-C does; TERM and KILL to the whole tree, KILL by its
// cgroup too where it has one of its own (job_cgroup.hpp).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "host/process/job_cgroup.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/signals.hpp"
#include "host/process/tree.hpp"
#include "host/process/watched.hpp"
#include "host/process/witness.hpp"
#include "port/commands.hpp"

struct signalfd_siginfo;

namespace thole::host {

// A second command may be started when the first one is over. Where others may have left us children, who does not show the
// command's THOLE_CLAIM is spared.
class Foreground : public port::Commands {
 public:
  explicit Foreground(const InheritedSignals& inherited) : inherited_(inherited) {}

  // From here on all signals are blocked in this thread, until the command's end has been told and nothing of it is left.
  pid_t start(port::Bay bay, const port::ProcessSpec& spec) override;
  std::vector<std::string> send(port::Bay bay, model::Signal signal, model::SentTo to) override;
  port::Rest look(port::Bay bay, port::Names names) override;
  void let_go(port::Bay bay) override;
  void watch(int fd, bool on) override { watched_.watch(fd, on); }
  std::span<const port::CommandEvent> wait(std::optional<SteadyTime> deadline) override;

 private:
  void take_signals();
  void take_signal(const signalfd_siginfo& signal);
  bool would_end_by(int signal) const;
  void reap();
  void command_ended(const siginfo_t& how);
  void will_stop(int signal);
  void follow_stop(int signal);
  bool goes_on() const;
  bool stop_self(int signal);           // false when nothing stopped us (an orphaned group)
  bool is_childless() const;
  bool is_a_stranger(pid_t child) const;
  bool is_of_a_lane(pid_t child) const;
  bool is_spared(const ProcessStat& child) const;
  std::vector<std::string> spared() const;
  void end_what_is_beside_the_tree();
  std::vector<ProcessStat> tree(std::vector<ProcessStat>* others = nullptr) const;

  const InheritedSignals& inherited_;
  std::unique_ptr<AllSignalsBlocked> blocked_;
  std::unique_ptr<Witness> witness_;     // lives as long as we do, so that its death is not waited for
  std::unique_ptr<JobCgroup> cgroup_;    // of the command, where it has one of its own
  pid_t command_ = 0;                    // 0: it has ended
  std::string claim_;
  std::vector<pid_t> strangers_;         // children that were there before the command, until they have ended
  bool had_strangers_ = false;
  std::uint64_t since_ = 0;              // ticks: what was started earlier is none of the command's
  Fd signals_;
  Watched watched_;
  std::optional<int> stop_;              // the signal that stopped the command, and is to stop us
  OnceEach told_;
  ToldOnce out_of_reach_;
  std::vector<port::CommandEvent> events_;
};

}  // namespace thole::host
