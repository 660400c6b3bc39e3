#include "host/user_namespace.hpp"

#include <cerrno>

#include "base/fd.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"

namespace thole::host {

namespace {

// The first namespace knows all users: "0 0 4294967295".
bool all_users_are_known() {
  const auto map = read_file("/proc/self/uid_map", 4096);
  if (!map) return !says_nothing(errno);
  const auto lines = split_lines(*map);
  if (lines.size() != 1) return false;
  std::vector<std::string_view> fields;
  for (const std::string_view field : split(lines.front(), ' '))
    if (!field.empty()) fields.push_back(field);
  return fields.size() == 3 && fields[2] == "4294967295";
}

uid_t shown_for_the_unknown() {
  static const auto shown = [] {   // of the whole system, and asked for each of many files
    const auto text = read_file("/proc/sys/kernel/overflowuid", 64);
    return static_cast<uid_t>(text ? parse_u64(trim(*text)).value_or(65534) : 65534);
  }();
  return shown;
}

}  // namespace

bool is_known_owner(uid_t owner) { return owner != shown_for_the_unknown() || all_users_are_known(); }

void refuse_hidden_owner(const std::string& path, uid_t owner) {
  if (is_known_owner(owner)) return;
  throw OwnersHidden(Error(ErrorCode::unavailable, "in this user namespace nobody can tell whose directory this is")
                         .about(path)
                         .hint("use thole outside, or in a container with the host's users, not a rootless one"));
}

}  // namespace thole::host
