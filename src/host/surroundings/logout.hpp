// What becomes of a user's processes when he logs out, as systemd-logind has been told.
#pragma once

#include <string>

#include "host/sysfs/tree.hpp"
#include "model/surroundings.hpp"

namespace thole::host {

// What an administrator has said in the files that logind reads, the later wins.
std::string logind_settings(const Tree& tree);

// Whether that text says that a user's processes end with his session. Where it says nothing they do not: the default of
// Debian, Ubuntu, Fedora and RHEL (systemd's own is the other).
bool ends_with_the_session(const std::string& settings);

model::Logout read_logout(const Tree& tree, const std::string& user);

}  // namespace thole::host
