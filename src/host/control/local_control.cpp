#include "host/control/local_control.hpp"

#include "host/control/ask.hpp"
#include "host/control/door.hpp"
#include "host/control/holder.hpp"

namespace thole::host {
namespace {

constexpr Millis patience_with_keepers{5'000};
constexpr Millis patience_for_an_end{60'000};  // a command is asked three times, and then its rest is

}  // namespace

std::unique_ptr<port::ClaimDoor> LocalControl::open(port::DoorSpec spec) { return std::make_unique<Door>(std::move(spec)); }

port::ClaimAbout LocalControl::describe(const port::ClaimAddress& claim) {
  return parse_about(ask_keeper(claim, "describe", patience_with_keepers).text);
}

void LocalControl::release(const port::ClaimAddress& claim) { ask_keeper(claim, "release", patience_for_an_end); }

std::optional<port::Ending> LocalControl::ending(const port::ClaimAddress& claim) {
  return parse_ending(ask_keeper(claim, "ending", patience_with_keepers).text);
}

std::string LocalControl::ways_to_end(const std::string& claim, uid_t owner) { return host::ways_to_end(claim, owner); }

void LocalControl::extend(const port::ClaimAddress& claim, WallTime until) {
  ask_keeper(claim, "extend " + std::to_string(until.time_since_epoch().count()), patience_with_keepers);
}

std::vector<Fd> LocalControl::descriptors(const port::ClaimAddress& claim, const port::CheckLocks& check) {
  return std::move(ask_keeper(claim, "descriptors", patience_with_keepers, check).fds);
}

std::string LocalControl::hold(const port::HoldSpec& spec,
                               const std::function<port::ToHold(const port::HoldCaller&)>& acquire) {
  return start_holder(spec, inherited_, acquire);
}

}  // namespace thole::host
