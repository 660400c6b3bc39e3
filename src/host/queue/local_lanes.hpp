// Seats and lanes in a queue's directory: the real implementation of port::Lanes.
#pragma once

#include "host/queue/queue_files.hpp"
#include "port/lanes.hpp"

namespace thole::host {

class LocalLanes : public port::Lanes {
 public:
  explicit LocalLanes(std::string directory) : files_(std::move(directory)) {}

  std::optional<port::RunnerSeat> sit() override;
  std::vector<port::LaneView> look() override;
  std::optional<port::LaneSeat> take(unsigned number, model::JobId job) override;
  port::LaneView look_at(unsigned number) override;
  pid_t fork(port::LaneSeat seat, port::RunnerSeat& runner, const std::function<int(port::LaneSeat&)>& work) override;
  bool tell(unsigned lane) override { return files_.tell_lane(lane); }
  std::vector<Fd> bearers(const std::string& mark) override;
  void signal_bearers(const std::string& mark, int signal) override;
  void run_aside(const std::string& command, const std::string& directory,
                 const std::vector<std::string>& environment) override;

 private:
  QueueFiles files_;
};

}  // namespace thole::host
