#include "wire/init.hpp"

#include <grp.h>

#include <limits>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/claims/init.hpp"
#include "host/gpu/file/search.hpp"
#include "plan/place/select.hpp"
#include "wire/config.hpp"
#include "wire/site_file.hpp"

namespace thole::wire {

namespace {

std::string group_name(gid_t id) {
  group entry{}, *found = nullptr;
  std::vector<char> buffer(1 << 16);
  if (::getgrgid_r(id, &entry, buffer.data(), buffer.size(), &found) == 0 && found) return found->gr_name;
  return std::to_string(id);
}

// Only the machine's own directory is made anew at every start.
void keep(const std::string& group, InitReport& report) {
  try {
    write_state_group(site_file, group);
  } catch (const Error& error) {
    report.cautions.push_back(
        fmt::format("the next start of the machine forgets it: {}; {}", error.full(), state_group_line(group)));
  }
}

}  // namespace

// groupadd takes no number for a name.
std::string cure_of_unknown(const std::string& name) {
  const auto number = parse_u64(name);
  if (!number) return fmt::format("sudo groupadd {}", shell_quote(printable(name, 60)));
  if (*number <= std::numeric_limits<gid_t>::max())
    if (const std::string there = group_name(static_cast<gid_t>(*number)); there != std::to_string(*number))
      return fmt::format("a group is named, not numbered: --group {}", shell_quote(printable(there, 60)));
  return fmt::format("a group is named, not numbered; one with this number: sudo groupadd -g {} NAME", *number);
}

gid_t group_id(const std::string& name) {
  group entry{}, *found = nullptr;
  std::vector<char> buffer(1 << 16);  // a group with many members
  const int failure = ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (!found)
    throw Error(ErrorCode::usage, fmt::format("there is no group \"{}\"", printable(name, 60)))
        .because(failure)
        .hint(cure_of_unknown(name));
  return entry.gr_gid;
}

InitReport init(Wire& wire, const InitWish& wish) {
  host::InitWish to_do;
  const host::StateLocation location = wire.state_location();
  if (!wish.take_back.empty())                        // before anything that somebody could see
    to_do.before = host::locks_before(location.paths.system);
  const bool common = location.kind == host::StateLocation::Kind::common;
  std::string group = wish.group;
  if (group.empty() && common && !wish.everybody) group = wire.settings().state_group;
  to_do.everybody = wish.everybody;
  to_do.force = wish.force;
  to_do.own_tmpfs = common;
  if (!group.empty()) to_do.group = group_id(group);
  wire.observer().look(wire.settings().probe_cold);
  const model::Snapshot& now = wire.observer().snapshot();
  const std::vector<model::Unit>& units = wire.observer().units();
  std::vector<std::string> keys;
  for (const model::Unit& unit : units) {
    keys.push_back(unit.key);
    if (unit.instance) to_do.partitioned.insert(unit.whole_key(now.machine));
  }
  for (const model::Gpu& gpu : now.machine.gpus)
    if (gpu.health != model::Health::ok && gpu.health != model::Health::reset_required) to_do.untold.insert(gpu.key());
  for (const std::string& word : wish.take_back)
    for (std::size_t i : plan::resolve(word, now, units))
      to_do.take_back.push_back({units[i].key, units[i].whole_key(now.machine)});
  const host::InitReport done = host::init_claims(location, keys, to_do);
  InitReport report{done.directory, "", done.slots, done.freed, done.old_access, done.not_taken_back, done.cautions};
  if (done.group) report.group = group_name(*done.group);
  if (location.kind == host::StateLocation::Kind::named && !wire.settings().state_group.empty())
    report.cautions.push_back(fmt::format("the group {} that {} names is for {}: in {} whoever its mode lets in may claim",
                                          printable(wire.settings().state_group, 60), site_file, location.paths.system,
                                          printable(done.directory)));
  if (common && (wish.everybody || !wish.group.empty())) keep(wish.group, report);
  return report;
}

std::vector<std::string> machine_names(const Settings& settings) {
  return host::shipped_machines(host::machine_directories(settings.machines_dir, settings.program));
}

}  // namespace thole::wire
