// Users as a user namespace shows them (rootless containers): all that it does not know look like one, nobody. Then it cannot
// be told whether a directory is root's or a stranger's, nor two users apart.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/error.hpp"

namespace thole::host {

// Nobody can say who has what here: what shows claims must not show GPUs as free either.
struct OwnersHidden : Error {
  using Error::Error;
  explicit OwnersHidden(Error error) : Error(std::move(error)) {}
};

// False for an owner that our user namespace does not know: root itself may be behind it.
bool is_known_owner(uid_t owner);

// Throws OwnersHidden where this owner of `path` is one that our user namespace does not know.
void refuse_hidden_owner(const std::string& path, uid_t owner);

}  // namespace thole::host
