// The tasks of one lane, each with a life of its own (command_life.hpp).
//
// A machine that goes down sends TERM to all processes and KILL to what is left, in an order that nobody knows. So of a command
// that ends by such a signal, which is not ours, it is not told for a moment how it ended: our own TERM may be a step behind,
// and a KILL ends us as well before anybody was told that the command has failed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "app/claim/command_life.hpp"
#include "port/clock.hpp"
#include "port/commands.hpp"
#include "port/task_keeper.hpp"

namespace thole::app {

class TaskLives : public port::TaskKeeper {
 public:
  TaskLives(std::unique_ptr<port::Commands> commands, const port::Clock& clock)
      : commands_(std::move(commands)), clock_(clock) {}

  pid_t start(const port::ProcessSpec& spec, const port::TaskRun& run) override;
  void tell(unsigned bay, const port::TaskOrder& order) override;
  port::TaskStands stands(unsigned bay) const override;
  bool told_to_end() override;
  std::vector<port::TaskOver> wait(std::span<const int> also, std::optional<SteadyTime> deadline) override;

  void before_burial(const port::CommandEnded& end);   // for who makes `commands`; see TaskRun::on_command_end

 private:
  struct Task {
    CommandLife life;
    std::optional<SteadyTime> in_doubt_until{};  // whether it alone was meant by the signal that ended it
    bool taken_down = false;
    std::function<void(const port::TaskOver&)> on_command_end{};
  };

  void hear(std::optional<SteadyTime> deadline);
  void heard(const port::CommandEnded& end);
  void watch(std::span<const int> also);

  std::unique_ptr<port::Commands> commands_;
  const port::Clock& clock_;
  bool told_to_end_ = false;
  std::map<port::Bay, Task> tasks_;
  std::vector<int> watched_;
};

}  // namespace thole::app
