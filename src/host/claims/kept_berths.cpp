#include "host/claims/kept_berths.hpp"

#include "base/text.hpp"

namespace thole::host {

std::string KeptBerths::in_words() const {
  const auto first_of = [](const std::map<std::string, BerthKeeper>& berths) {
    return berths.begin()->first + (berths.size() > 1 ? fmt::format(" and {} more", berths.size() - 1) : "");
  };
  if (!by_bytes.empty())
    return fmt::format("locks that are no sharer's lie on a place of {}, so that it counts as full: {}", first_of(by_bytes),
                       by_bytes.begin()->second.in_words());
  if (!missed.empty())
    return fmt::format("a place of {} is taken and not locked, so that it counts as full: its node was deleted or replaced "
                       "under its holder, or {}", first_of(missed), missed.begin()->second.in_words());
  if (unshared.empty()) return "";
  return fmt::format("nobody shares {}, yet places for sharers are kept there, so that who comes with --share has a GPU alone: "
                     "{}", first_of(unshared), unshared.begin()->second.in_words());
}

}  // namespace thole::host
