#include "app/claim/locks_around.hpp"

#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "port/claim_control.hpp"

namespace thole::app {
namespace {

// What is said where nobody lets them be copied; nothing where what claims inside may not begin.
std::optional<std::string> kept_without_us(const Error& why, const port::InheritedLocks& inherited, const std::string& id) {
  const auto* nobody = dynamic_cast<const port::NobodyToAsk*>(&why);
  if (!nobody || (!inherited.keeper && (nobody->killed || inherited.ended))) return std::nullopt;
  return inherited.keeper
      ? fmt::format("the GPUs of the claim around are kept by process {} alone: when it ends they are given to others, though "
                    "this command runs", *inherited.keeper)
      : fmt::format("nobody who keeps the GPUs of claim {} is seen from here: when who keeps them ends they are given to "
                    "others, though this command runs", id);
}

// That the claim itself is made in.
port::ClaimStore& store_of(const Site& site, const OuterClaim& claim) {
  return claim.claimed_in ? *claim.claimed_in : site.store;
}

[[noreturn]] void around_has_ended(const std::string& id) {
  throw Error(ErrorCode::unavailable, "the claim around this one has ended").about(id);
}

}  // namespace

void watch_around(const Site& site, const std::vector<OuterClaim>& around, port::Claim& claim) {
  for (const OuterClaim& outer : around) claim.watch_around(store_of(site, outer).watch(last_part(outer.id)));
}

void keep_around(const Site& site, const std::vector<OuterClaim>& around, port::Claim& claim,
                 const std::function<void(const std::string&)>& caution) {
  if (!site.lend) return;
  for (const OuterClaim& outer : around) {
    port::ClaimStore& store = store_of(site, outer);
    const std::string own = last_part(outer.id);
    port::ClaimLocks locks = store.own_locks(own);
    try {
      if (locks.empty()) locks = site.lend(outer.id);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable) throw;
      if (store.own_claim(own).empty()) around_has_ended(outer.id);
      port::InheritedLocks inherited = store.copy_locks(own);
      locks = std::move(inherited.copies);
      if (locks.empty()) {
        const std::optional<std::string> said = kept_without_us(error, inherited, outer.id);
        if (store.own_claim(own).empty()) around_has_ended(outer.id);   // since it was looked at
        if (!said) throw;
        if (caution) caution(*said);
      }
    }
    port::WatchedUnits units = store.watch(own);
    if (!locks.empty()) {              // they tell what is taken from now on; of what was, nobody may have had any to lend
      units.files.clear();
      claim.keep_around(std::move(locks));
    }
    claim.watch_around(std::move(units));
  }
}

}  // namespace thole::app
