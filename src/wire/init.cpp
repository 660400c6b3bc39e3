#include "wire/init.hpp"

#include <grp.h>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/claims/store.hpp"
#include "host/gpu/file/search.hpp"

namespace thole::wire {

namespace {

gid_t group_id(const std::string& name) {
  group entry{}, *found = nullptr;
  std::vector<char> buffer(1 << 16);  // a group with many members
  const int failure = ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (!found)
    throw Error(ErrorCode::usage, fmt::format("there is no group \"{}\"", printable(name, 60)))
        .because(failure)
        .hint(fmt::format("sudo groupadd {}", shell_quote(printable(name, 60))));
  return entry.gr_gid;
}

}  // namespace

InitReport init(Wire& wire, const std::string& group) {
  host::NodeAccess access;
  if (!group.empty()) access.group = group_id(group);
  wire.observer().look(wire.settings().probe_cold);
  std::vector<std::string> keys;
  for (const model::Unit& unit : wire.observer().units()) keys.push_back(unit.key);
  const host::InitReport report = host::init_claims(wire.state_location(), keys, access);
  return {report.directory, report.slots, report.freed};
}

std::vector<std::string> machine_names(const Settings& settings) {
  return host::shipped_machines(host::machine_directories(settings.machines_dir, settings.program));
}

}  // namespace thole::wire
