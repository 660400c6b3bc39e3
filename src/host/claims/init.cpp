#include "host/claims/init.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "host/claims/alloc_lock.hpp"
#include "host/claims/claim_directory.hpp"
#include "host/claims/system_init.hpp"

namespace thole::host {
namespace {

unsigned count(const SlotKeys& keys) {
  return static_cast<unsigned>(std::count_if(keys.begin(), keys.end(), [](const std::string& key) { return !key.empty(); }));
}

InitReport init_named(const StateLocation& location, const std::vector<std::string>& units, const InitWish& wish) {
  if (!wish.take_back.empty())
    throw Error(ErrorCode::usage, "--take-back is for the machine's own directory").about(location.paths.system);
  ClaimDirectory nodes(open_state_dir(location), units, wish.group);
  if (!nodes.state().mine)
    throw Error(ErrorCode::unavailable, "only its owner can mend a state directory").about(nodes.path());
  AllocLock lock(nodes.alloc(), nodes.path(), {}, {});
  InitReport report;
  report.directory = nodes.path();
  report.freed = nodes.mend(units);
  report.slots = count(nodes.slots());
  report.group = wish.group;
  report.cautions = nodes.cautions();
  return report;
}

}  // namespace

InitReport init_claims(const StateLocation& location, const std::vector<std::string>& units, const InitWish& wish) {
  if (location.kind != StateLocation::Kind::common) return init_named(location, units, wish);
  if (::geteuid() != location.paths.system_owner)
    throw Error(ErrorCode::unavailable, "only root can make the machine's state directory").about(location.paths.system).hint(
        "sudo thole init");
  return SystemInit(location.paths, units, wish).run();
}

}  // namespace thole::host
