#include "host/user_name.hpp"

#include <pwd.h>

namespace thole::host {

std::string user_name(uid_t uid) {
  char buffer[4096];
  passwd entry{}, *found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) == 0 && found && found->pw_name) return found->pw_name;
  return std::to_string(uid);
}

}  // namespace thole::host
