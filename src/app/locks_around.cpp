#include "app/locks_around.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::app {

std::vector<port::ClaimLocks> locks_around(const Site& site, const std::vector<OuterClaim>& around) {
  std::vector<port::ClaimLocks> all;
  if (!site.lend) return all;
  for (const OuterClaim& outer : around) {
    port::ClaimStore& store = outer.claimed_in ? *outer.claimed_in : site.store;
    try {
      port::ClaimLocks locks = site.lend(outer.id, store.about().directory, outer.keys);
      if (!locks.empty()) all.push_back(std::move(locks));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable || !store.own_claim(last_part(outer.id)).empty()) throw;
      throw Error(ErrorCode::unavailable, "the claim around this one has ended").about(outer.id);
    }
  }
  return all;
}

}  // namespace thole::app
