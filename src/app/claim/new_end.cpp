#include "app/claim/new_end.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::app {

EndOfClaim end_of_claim(const Acquired& acquired) { return {acquired.claim.id, acquired.claim.keys, acquired.passed}; }

std::optional<plan::PutOff> put_off_by(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, WallTime until) {
  if (claim.passed.empty()) return std::nullopt;
  std::optional<plan::PutOff> found;
  port::Entry entry;
  entry.id = fresh_claim_id();
  entry.eligible = claim.keys;
  entry.only_looks = true;
  const auto place = store.enter(std::move(entry));
  (void)place->step([&](const model::QueueView& queue, std::optional<std::uint64_t>, WallTime now) -> model::Decision {
    model::SlotSet held;
    for (std::size_t slot = 0; slot < queue.slots.size(); ++slot)
      if (std::ranges::find(claim.keys, queue.slots[slot].key) != claim.keys.end()) held.set(slot);
    found = plan::put_off(queue, held, site.uid, until, claim.passed, now);
    return model::Refuse{false, "only looking"};
  });
  return found;
}

bool amend_end(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, std::optional<WallTime> until) {
  const WallTime now = site.clock.wall();
  if (const auto put_off = until ? put_off_by(store, site, claim, *until) : std::nullopt) {
    const auto left = std::chrono::floor<Seconds>(put_off->promised - now);
    throw Error(ErrorCode::unavailable,
                fmt::format("{} has let this claim go first for its declared end, and was promised a start by {}",
                            printable(site.user_name(put_off->uid), 32), format_local(put_off->promised, now)))
        .hint(left > Seconds{0} ? "it can be extended until then: thole extend " + format_duration(left) : "");
  }
  return store.amend(port::Claim{claim.id, claim.keys, {}}, until);
}

}  // namespace thole::app
