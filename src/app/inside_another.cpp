#include "app/inside_another.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/shell_kind.hpp"
#include "base/text.hpp"

namespace thole::app {
namespace {

[[noreturn]] void refuse(const Site& site, const model::Holding& kept, const std::string& named) {
  const std::string claim = kept.id.empty() ? "a claim" : "claim " + printable(kept.id, 16);
  std::string whose, hint = "use its GPUs as they are";
  if (kept.uid != site.uid) {
    whose = fmt::format("{} of {}, and only its owner claims within it", claim,
                        kept.user.empty() ? "another user" : printable(kept.user, 32));
    hint += "; to claim others beside them:\n" + unset_claim_in(site.shell);
  } else if (kept.id == named) {
    whose = claim + ", which was made outside of this user namespace, and is claimed within only from there";
    hint += ", or claim before the namespace is entered";
  } else {
    whose = claim + ", which THOLE_CLAIM does not name";
    if (!kept.id.empty()) hint = "to claim within it: export THOLE_CLAIM=" + printable(kept.id, 16);
  }
  throw Error(ErrorCode::unavailable, fmt::format("this runs inside {}: its GPUs are not free before this has ended", whose))
      .hint(hint);
}

}  // namespace

void refuse_to_wait_for_oneself(const Site& site, const model::Request& request, const std::vector<std::size_t>& eligible) {
  std::vector<std::string> keys;
  for (std::size_t unit : eligible) keys.push_back(site.observer.units()[unit].key);
  const std::vector<port::KeptAround> around = site.store.kept_around(keys, request.share);
  if (keys.size() - around.size() >= request.gpus) return;
  const auto in_environment = site.environment.find("THOLE_CLAIM");
  const std::string inside = in_environment == site.environment.end() ? "" : in_environment->second;
  const std::string named = inside.substr(0, inside.find('/'));
  // Who started us may let go of a claim before we end, but not of one whose command we are.
  std::set<std::string> never;
  std::optional<model::Holding> first;
  for (const model::Holding& holding : site.store.holdings()) {
    const auto kept = std::ranges::find(around, holding.key, &port::KeptAround::key);
    if (kept == around.end() || !(kept->to_the_end || (!named.empty() && holding.id == named))) continue;
    never.insert(kept->key);
    if (!first || (first->id != named && holding.id == named)) first = holding;
  }
  if (first && keys.size() - never.size() < request.gpus) refuse(site, *first, named);
}

}  // namespace thole::app
