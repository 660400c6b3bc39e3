// Claims' sockets and holders on this machine: the real implementation of port::ClaimControl.
#pragma once

#include "host/process/signals.hpp"
#include "port/claim_control.hpp"

namespace thole::host {

class LocalControl : public port::ClaimControl {
 public:
  explicit LocalControl(const InheritedSignals& inherited = InheritedSignals::capture()) : inherited_(inherited) {}

  std::unique_ptr<port::ClaimDoor> open(port::DoorSpec spec) override;
  port::ClaimAbout describe(const port::ClaimAddress& claim) override;
  void release(const port::ClaimAddress& claim) override;
  std::optional<port::Ending> ending(const port::ClaimAddress& claim) override;
  std::string ways_to_end(const std::string& claim, uid_t owner) override;
  void extend(const port::ClaimAddress& claim, WallTime until) override;
  std::vector<Fd> descriptors(const port::ClaimAddress& claim, const port::CheckLocks& check) override;
  std::string hold(const port::HoldSpec& spec, const std::function<port::ToHold(const port::HoldCaller&)>& acquire) override;

 private:
  InheritedSignals inherited_;
};

}  // namespace thole::host
