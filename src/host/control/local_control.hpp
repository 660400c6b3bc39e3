// Claims' sockets and holders on this machine: the real implementation of port::ClaimControl.
#pragma once

#include "host/process/signals.hpp"
#include "port/claim_control.hpp"

namespace thole::host {

class LocalControl : public port::ClaimControl {
 public:
  explicit LocalControl(const InheritedSignals& inherited = InheritedSignals::capture()) : inherited_(inherited) {}

  std::unique_ptr<port::ClaimDoor> open(port::DoorSpec spec) override;
  port::ClaimAbout describe(const std::string& directory) override;
  void release(const std::string& directory) override;
  std::optional<port::Ending> ending(const std::string& directory) override;
  std::string ways_to_end(const std::string& claim, uid_t owner) override;
  void extend(const std::string& directory, WallTime until) override;
  std::vector<Fd> descriptors(const std::string& directory) override;
  std::string hold(const port::HoldSpec& spec, const std::function<port::ToHold(int cancel)>& acquire) override;

 private:
  InheritedSignals inherited_;
};

}  // namespace thole::host
