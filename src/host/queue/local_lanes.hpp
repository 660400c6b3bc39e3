// Seats and lanes in a queue's directory: the real implementation of port::Lanes.
#pragma once

#include "host/queue/queue_files.hpp"
#include "host/queue/unseen_note.hpp"
#include "port/lanes.hpp"

namespace thole::host {

class LocalLanes : public port::Lanes {
 public:
  // `patience`: with a runner that was asked to leave.
  explicit LocalLanes(std::string directory, Millis patience = Millis{30'000})
      : files_(std::move(directory)), note_(files_.unseen_file()), patience_(patience) {}

  std::optional<port::RunnerSeat> sit() override;
  bool keep(port::RunnerSeat& seat) override;
  std::vector<port::LaneView> look() override;
  std::optional<port::LaneSeat> take(unsigned number, model::JobId job) override;
  port::LaneView look_at(unsigned number) override;
  pid_t fork(port::LaneSeat seat, port::RunnerSeat& runner, const std::function<int(port::LaneSeat&)>& work) override;
  bool stands(const port::LaneSeat& seat) override { return files_.stands(seat); }
  std::vector<Fd> bearers(const port::RunTrace& run) override;
  bool signal_bearers(const port::RunTrace& run, model::Signal signal) override;
  std::vector<Fd> holders(unsigned number, const port::RunTrace& run) override;
  void tell_sight(const port::RunnerSight& sight) override { note_.write(sight); }
  bool relieve() override;
  bool is_awaited() override;
  void run_aside(const std::string& command, const std::string& directory,
                 const std::vector<std::string>& environment) override;

 private:
  QueueFiles files_;
  UnseenWriter note_;
  Millis patience_;
  Fd start_;                                     // locked from relieve() to sit()
};

}  // namespace thole::host
