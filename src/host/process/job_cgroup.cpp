#include "host/process/job_cgroup.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

#include "base/text.hpp"

namespace thole::host {
namespace {

constexpr std::string_view prefix = "thole-";  // and the supervisor's pid
constexpr int removal_tries = 5, removal_pause_ms = 1;  // a process that has been waited for leaves its cgroup a moment later

bool is_unified(int directory) {
  struct statfs about;
  return ::fstatfs(directory, &about) == 0 && about.f_type == CGROUP2_SUPER_MAGIC;
}

// systemd's mark; without it root would meddle with cgroups that somebody else manages.
bool is_marked_delegated(int directory) {
  for (const char* mark : {"user.delegate", "trusted.delegate"}) {
    char value = 0;
    if (::fgetxattr(directory, mark, &value, 1) == 1 && value == '1') return true;
  }
  return false;
}

bool is_ours(int directory) {
  struct stat about;
  if (::fstat(directory, &about) != 0) return false;
  return ::geteuid() == 0 ? is_marked_delegated(directory) : about.st_uid == ::geteuid();
}

std::vector<std::string> groups_in(int directory) {
  std::vector<std::string> names;
  Fd own = open_at(directory, ".", O_RDONLY | O_DIRECTORY);
  std::unique_ptr<DIR, int (*)(DIR*)> listing(own ? ::fdopendir(own.get()) : nullptr, ::closedir);
  if (!listing) return names;
  static_cast<void>(own.release());
  while (const dirent* entry = ::readdir(listing.get()))
    if (entry->d_type == DT_DIR && entry->d_name[0] != '.') names.emplace_back(entry->d_name);
  return names;
}

// A cgroup with all below it; false while anything lives there.
bool remove_tree(int parent, const std::string& name) {
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return true;
  Fd directory = open_at(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  for (const std::string& below : groups_in(directory.get()))
    if (!remove_tree(directory.get(), below)) return false;
  return ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0;
}

// Those of supervisors that were killed, and whose command has ended since.
void sweep(int parent) {
  for (const std::string& name : groups_in(parent)) {
    if (!name.starts_with(prefix)) continue;
    const auto pid = parse_u64(std::string_view(name).substr(prefix.size()));
    if (pid && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH) remove_tree(parent, name);
  }
}

}  // namespace

std::string unified_cgroup(const std::string& text) {
  for (std::string_view line : split_lines(text)) {
    if (!line.starts_with("0::/")) continue;
    const std::string_view path = line.substr(3);
    return path.find("/..") == std::string_view::npos ? std::string(path) : "";
  }
  return "";
}

JobCgroup::JobCgroup(const std::string& root) {
  const std::string path = unified_cgroup(read_file(root + "/proc/self/cgroup", 65536).value_or(""));
  if (path.empty()) return;
  for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    Fd ours = open_at(AT_FDCWD, (root + mount + path).c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    if (!ours || (root.empty() && !is_unified(ours.get()))) continue;
    if (!is_ours(ours.get())) return;
    sweep(ours.get());
    name_ = std::string(prefix) + std::to_string(::getpid());
    if (::mkdirat(ours.get(), name_.c_str(), 0755) != 0) return;
    parent_ = std::move(ours);
    directory_ = open_at(parent_.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    return;
  }
}

void JobCgroup::kill() {
  if (!directory_) return;
  Fd all = open_at(directory_.get(), "cgroup.kill", O_WRONLY);
  if (all) static_cast<void>(write_all(all.get(), "1"));
}

void JobCgroup::remove() {
  if (!parent_) return;
  directory_.reset();
  for (int tries = 0; tries < removal_tries && !remove_tree(parent_.get(), name_); ++tries) ::poll(nullptr, 0, removal_pause_ms);
  parent_.reset();
}

}  // namespace thole::host
