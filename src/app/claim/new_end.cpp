#include "app/claim/new_end.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::app {
namespace {

bool is_within(std::optional<WallTime> until, std::optional<WallTime> ends_by) {
  return !ends_by || (until && *until <= *ends_by);
}

void refuse_to_put_off(std::uint32_t whom, const Site& site, WallTime ends_by) {
  const WallTime now = site.clock.wall();
  const auto left = std::chrono::floor<Seconds>(ends_by - now);
  throw Error(ErrorCode::unavailable, fmt::format("{} has let this claim go first, since it was to end by {}",
                                                  printable(site.user_name(whom), 32), format_local(ends_by, now)))
      .hint(left > Seconds{0} ? "it can be extended until then: thole extend " + format_duration(left)
                              : "it can be extended once nobody of them waits any more");
}

}  // namespace

EndOfClaim end_of_claim(const Acquired& acquired) {
  return {acquired.claim.id, acquired.claim.keys, acquired.passed, acquired.ends_by};
}

std::optional<std::uint32_t> still_in_line(port::ClaimStore& store, const EndOfClaim& claim) {
  for (const model::Waiting& one : store.waiting()) {
    const auto is_it = [&](const model::InLine& passed) {
      return passed.first == one.ticket && (passed.second == one.uid || one.uid == static_cast<std::uint32_t>(-1));
    };
    if (!one.vouched || one.stopped) continue;
    if (const auto found = std::ranges::find_if(claim.passed, is_it); found != claim.passed.end()) return found->second;
  }
  return std::nullopt;
}

bool may_end_at(port::ClaimStore& store, Acquired& acquired, std::optional<WallTime> until) {
  if (is_within(until, acquired.ends_by)) return true;
  if (still_in_line(store, end_of_claim(acquired))) return false;
  acquired.ends_by.reset();
  return true;
}

bool amend_end(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, std::optional<WallTime> until) {
  if (!is_within(until, claim.ends_by))
    if (const auto whom = still_in_line(store, claim)) refuse_to_put_off(*whom, site, *claim.ends_by);
  return store.amend(port::Claim{claim.id, claim.keys, {}}, until);
}

}  // namespace thole::app
