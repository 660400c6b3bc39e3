#include "host/sysfs/people.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {

namespace {

constexpr std::size_t command_limit = 4096;

std::string directory_of(pid_t pid) { return "/proc/" + std::to_string(pid); }

// Names come from this host's user database, so a captured tree's uids stay numbers.
std::string user_name(const Tree& tree, uid_t uid) {
  passwd entry, *found = nullptr;
  std::array<char, 16384> buffer;
  if (tree.live() && ::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found) return found->pw_name;
  return std::to_string(uid);
}

}  // namespace

std::optional<uid_t> owner_of(const Tree& tree, pid_t pid) {
  auto status = tree.text(directory_of(pid) + "/status");
  auto uids = status ? field(*status, "Uid") : std::nullopt;  // real, effective, saved, file system
  if (!uids) return std::nullopt;
  auto real = parse_u64(uids->substr(0, uids->find_first_of(" \t")));
  return real && *real <= UINT_MAX ? std::optional(static_cast<uid_t>(*real)) : std::nullopt;
}

std::string command_of(const Tree& tree, pid_t pid) {
  auto line = read_file(tree.at(directory_of(pid) + "/cmdline"), command_limit);
  if (line && !line->empty()) {
    std::replace(line->begin(), line->end(), '\0', ' ');
    return std::string(trim(*line));
  }
  return tree.text(directory_of(pid) + "/comm").value_or("");
}

bool in_pid_namespace(const Tree& tree) {
  constexpr std::string_view initial = "pid:[4026531836]";  // PROC_PID_INIT_INO, fixed in the kernel's ABI
  std::array<char, 64> target;
  ssize_t length = ::readlink(tree.at("/proc/self/ns/pid").c_str(), target.data(), target.size());
  return length > 0 && std::string_view(target.data(), static_cast<std::size_t>(length)) != initial;
}

void name_processes(const Tree& tree, std::vector<model::GpuProcess>& processes) {
  for (model::GpuProcess& process : processes) {
    if (auto uid = owner_of(tree, process.pid)) process.user = user_name(tree, *uid);
    process.command = command_of(tree, process.pid);
  }
}

}  // namespace thole::host
