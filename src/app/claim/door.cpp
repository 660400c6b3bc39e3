#include "app/claim/door.hpp"

#include <utility>

#include "app/claim/new_end.hpp"
#include "base/error.hpp"
#include "base/printable_lines.hpp"

namespace thole::app {

std::unique_ptr<port::ClaimDoor> open_door(const DoorMaker& make, const Site& site, const Acquired& acquired,
                                           std::optional<WallTime> until,
                                           const std::function<void(const std::string&)>& caution,
                                           std::function<bool()> is_ending,
                                           std::function<bool(std::optional<WallTime>)> amend) {
  if (!acquired.claim.is_held()) return nullptr;
  port::DoorSpec spec;
  spec.about = {acquired.claim.id(), 0, false, until};
  spec.locks = acquired.claim.descriptors();
  port::ClaimStore& store = acquired.store(site);
  spec.lives = [&store](const std::string& id) { return !store.own_claim(id).empty(); };
  spec.is_ending = std::move(is_ending);
  spec.amend = std::move(amend);
  if (!spec.amend)
    spec.amend = [&store, &site, claim = end_of_claim(acquired)](std::optional<WallTime> end) {
      return amend_end(store, site, claim, end);
    };
  try {
    return make(std::move(spec));
  } catch (const Error& error) {
    if (caution) caution("release and extend will not reach this claim: " + in_one_line(error.full()));
    return nullptr;
  }
}

void declare_end(const Site& site, const Acquired& acquired, port::ClaimDoor* door, std::optional<WallTime> until) {
  acquired.store(site).amend(acquired.claim.id(), until);
  if (door) door->ends_at(until);
}

}  // namespace thole::app
