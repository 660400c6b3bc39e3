#include "host/user_name.hpp"

#include <pwd.h>

#include "base/text.hpp"

namespace thole::host {

std::string user_name(uid_t uid) {
  char buffer[4096];
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found && found->pw_name) return found->pw_name;
  return std::to_string(uid);
}

std::optional<uid_t> user_of_name(const std::string& name) {
  char buffer[4096];
  passwd entry{}, *found = nullptr;
  if (::getpwnam_r(name.c_str(), &entry, buffer, sizeof buffer, &found) == 0 && found) return entry.pw_uid;
  const auto number = parse_u64(name);           // the name of who has none
  return number && *number < static_cast<uid_t>(-1) ? std::optional(static_cast<uid_t>(*number)) : std::nullopt;
}

}  // namespace thole::host
