#include "host/claims/init.hpp"

#include <unistd.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/claims/alloc_lock.hpp"
#include "host/claims/claim_directory.hpp"
#include "host/claims/system_init.hpp"

namespace thole::host {
namespace {

unsigned count(const SlotKeys& keys) {
  return static_cast<unsigned>(std::count_if(keys.begin(), keys.end(), [](const std::string& key) { return !key.empty(); }));
}

// A gate is more than the mode of new nodes: whoever has an old one open goes around it, and only SystemInit sees to that.
// Another directory has a mode, which keeps others out of all of it.
[[noreturn]] void refuse_group(const StateLocation& location) {
  if (location.kind == StateLocation::Kind::personal)
    throw Error(ErrorCode::usage, "--group and --no-group are for " + location.paths.system +
                                      "; in the directory of a simulated machine you claim alone")
        .hint("sudo thole init --group GROUP, without a simulated machine");
  throw Error(ErrorCode::usage, "--group and --no-group are for " + location.paths.system +
                                    "; elsewhere the mode of the directory says who may claim")
      .about(location.path)
      .hint(fmt::format("sudo install -d -m 750 -g GROUP {0}, for everybody: sudo chmod 755 {0}", shell_quote(location.path)));
}

InitReport init_named(const StateLocation& location, const std::vector<std::string>& units, const InitWish& wish) {
  if (!wish.take_back.empty())
    throw Error(ErrorCode::usage, "--take-back is for the machine's own directory").about(location.paths.system);
  if (wish.group || wish.everybody) refuse_group(location);
  ClaimDirectory nodes(open_state_dir(location), units);
  if (!nodes.state().mine)
    throw Error(ErrorCode::unavailable, "only its owner can mend a state directory").about(nodes.path());
  AllocLock lock(nodes.alloc(), nodes.path(), {}, {});
  InitReport report;
  report.directory = nodes.path();
  report.freed = nodes.mend(units);
  report.slots = count(nodes.slots());
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
