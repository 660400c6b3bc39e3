#include "host/claims/kept_berths.hpp"

#include "base/text.hpp"
#include "host/claims/share_terms.hpp"

namespace thole::host {

std::string KeptBerths::in_words() const {
  const auto first_of = [](const std::map<std::string, Fd>& berths) {
    return berths.begin()->first + (berths.size() > 1 ? fmt::format(" and {} more", berths.size() - 1) : "");
  };
  if (!by_bytes.empty())
    return fmt::format("locks that are no sharer's lie on a place of {}, so that it counts as full: {}", first_of(by_bytes),
                       describe_byte_locker(by_bytes.begin()->second.get()));
  if (!missed.empty())
    return fmt::format("a place of {} is taken and not locked, so that it counts as full: its node was deleted or replaced "
                       "under its holder, or {}", first_of(missed), describe_byte_locker(missed.begin()->second.get()));
  if (unshared.empty()) return "";
  return fmt::format("nobody shares {}, yet all places for sharers are kept, so that who comes with --share has a GPU alone: "
                     "{}", first_of(unshared), describe_berth_keeper(unshared.begin()->second.get()));
}

}  // namespace thole::host
