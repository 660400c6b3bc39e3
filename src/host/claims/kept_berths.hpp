// Berths that are kept from sharers though no sharer has them, for who looks: of each unit one, by its key.
#pragma once

#include <map>
#include <string>

#include "base/fd.hpp"

namespace thole::host {

struct KeptBerths {
  std::map<std::string, Fd> by_bytes;    // of a unit that is shared: locks of others lie on it
  std::map<std::string, Fd> missed;      // of such a unit; here the unit's node, on which it is said to be taken
  std::map<std::string, Fd> unshared;    // of a unit that nobody shares: all are kept

  std::string in_words() const;          // "" where there are none; may ask the network for a name
};

}  // namespace thole::host
