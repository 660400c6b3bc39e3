// The tasks of one lane as processes of this machine: the real implementation of port::TaskKeeper.
//
// How it works. A lane has no terminal: all signals are blocked, and SIGCHLD and SIGTERM are looked for, on descriptors. A
// machine that goes down sends TERM to all processes and KILL to what is left, in an order that nobody knows. So of a command
// that ends by such a signal, which is not ours, it is not told for a moment how it ended: our own TERM may be a step behind,
// and a KILL ends us as well before anybody was told that the command has failed.
//
// Each task has a process group of its own. As subreaper the lane inherits what a task leaves behind; whose it is, its process
// group or its mark in the environment tells (or, with a single task, nobody else's it can be). It is treated as a command's
// rest is by `thole run` (host/process/foreground.hpp): a moment to end by itself, then TERM, and after the patience KILL.
#pragma once

#include <map>

#include "host/process/signal_process.hpp"
#include "host/process/signals.hpp"
#include "host/process/tree.hpp"
#include "port/task_keeper.hpp"

namespace thole::host {

class LocalKeeper : public port::TaskKeeper {
 public:
  explicit LocalKeeper(const InheritedSignals& inherited);   // blocks all signals as long as it lives

  pid_t start(const port::ProcessSpec& spec, const port::TaskRun& run) override;
  void stop(unsigned place) override;
  void pause(unsigned place, bool paused) override;
  bool told_to_end() override;
  std::vector<port::TaskOver> wait(std::span<const int> also, std::optional<SteadyTime> deadline) override;

 private:
  enum class Phase { running, settling, lingering, ending, over };
  struct Halt {
    Stopping stopping;
    Millis pause;                                // before the look after the next
    SteadyTime next_look;
  };
  struct Kept {
    port::TaskRun run;
    pid_t pid = 0;                               // of the command, until it has ended
    pid_t group = 0;                             // that it was started in
    Phase phase = Phase::running;
    int step = 0;                                // signals sent so far towards its end, or that of its rest
    bool paused = false;
    std::optional<SteadyTime> deadline;          // of the next step
    std::optional<SteadyTime> give_up;           // when even KILL does not help
    Millis left{0};                              // of the limit, while paused
    std::optional<Halt> halt;                    // until all of it have stopped
    std::optional<SteadyTime> in_doubt_until;    // whether it alone was meant by the signal that ended it
    ToldOnce out_of_reach;
    port::TaskOver result;
  };

  void reap();
  void command_ended(Kept& task, int status);
  void deadline_passed(Kept& task, SteadyTime now);
  void stop_more(Kept& task, SteadyTime now);
  void next_step_against_command(Kept& task);
  void next_step_against_rest(Kept& task, SteadyTime now);
  void look_at_rest(Kept& task);
  bool is_alone(const Kept& task) const;
  bool is_gone(const Kept& task, bool settled) const;
  bool is_of(const Kept& task, const ProcessStat& left_to_us) const;
  static void signal_these(Kept& task, const std::vector<ProcessStat>& processes, int signal);
  void name_rest(Kept& task, SteadyTime now);
  std::vector<ProcessStat> tree(const Kept& task, std::vector<ProcessStat>* others = nullptr) const;   // what lives of it

  const InheritedSignals& inherited_;
  AllSignalsBlocked blocked_;
  Fd children_, term_;                           // readable when one has ended, and when we are told to
  bool told_to_end_ = false;
  const bool kernel_lists_children_ = listed_children().has_value();
  std::map<unsigned, Kept> tasks_;               // by place
};

}  // namespace thole::host
