// Berths that are kept from sharers though no sharer has them, for who looks: of each unit one, by its key.
#pragma once

#include <map>
#include <string>

#include "host/claims/slot_look.hpp"

namespace thole::host {

struct KeptBerths {
  std::map<std::string, BerthKeeper> by_bytes;    // of a unit that is shared: locks of others lie on it
  std::map<std::string, BerthKeeper> missed;      // of such a unit
  std::map<std::string, BerthKeeper> unshared;    // of a unit that nobody shares

  std::string in_words() const;          // "" where there are none; may ask the network for a name
};

}  // namespace thole::host
