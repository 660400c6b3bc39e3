#include "app/locks_around.hpp"

#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "port/claim_control.hpp"

namespace thole::app {
namespace {

// Nobody answered for them. Rethrows what the keeper said, or why there is none.
port::ClaimLocks locks_without_keeper(port::ClaimStore& store, const std::string& id,
                                      const std::function<void(const std::string&)>& caution) {
  const std::string own = last_part(id);
  if (store.own_claim(own).empty()) throw Error(ErrorCode::unavailable, "the claim around this one has ended").about(id);
  port::InheritedLocks inherited = store.copy_locks(own);
  if (!inherited.copies.empty()) return std::move(inherited.copies);
  try {
    throw;
  } catch (const port::NobodyToAsk& nobody) {
    if (!inherited.keeper && (nobody.killed || inherited.ended)) throw;
    const std::string whose = inherited.keeper
        ? fmt::format("the GPUs of the claim around are kept by process {} alone", *inherited.keeper)
        : fmt::format("nobody who keeps the GPUs of claim {} is seen from here", id);
    if (caution) caution(whose + ": when it ends they are given to others, though this command runs");
  }
  return {};
}

}  // namespace

std::vector<port::ClaimLocks> locks_around(const Site& site, const std::vector<OuterClaim>& around,
                                           const std::function<void(const std::string&)>& caution) {
  std::vector<port::ClaimLocks> all;
  if (!site.lend) return all;
  for (const OuterClaim& outer : around) {
    port::ClaimStore& store = outer.claimed_in ? *outer.claimed_in : site.store;
    if (store.has_locks(last_part(outer.id))) continue;
    port::ClaimLocks locks;
    try {
      locks = site.lend(outer.id);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable) throw;
      locks = locks_without_keeper(store, outer.id, caution);
    }
    if (!locks.empty()) all.push_back(std::move(locks));
  }
  return all;
}

}  // namespace thole::app
