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

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <vector>

#include "base/made.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/time.hpp"
#include "host/process/left_to_us.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

constexpr std::string_view prefix = "thole-";  // and the supervisor's pid
// At most, from the last one's end to its leaving the cgroup: what forks without end takes long.
constexpr Millis emptying{2000};

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

bool is_of_any_queue(pid_t pid) { return is_of_a_queue(pid) || is_of_a_lost_lane(pid); }

// A runner that the command has started, or a lane of it, or its task: what it runs is not the command's.
bool has_a_queue(int directory) {
  const Fd list = open_at(directory, "cgroup.procs", O_RDONLY);
  std::string text;
  char bytes[4096];
  for (ssize_t n; (n = ::read(list.get(), bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<std::size_t>(n));
  for (std::string_view line : split_lines(text))
    if (const auto pid = parse_u64(line); pid && is_of_any_queue(static_cast<pid_t>(*pid))) return true;
  return std::ranges::any_of(groups_in(directory), [&](const std::string& name) {
    const Fd below = open_at(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    return below && has_a_queue(below.get());
  });
}

// A process that has been waited for leaves its cgroup a moment later. The kernel tells of it by POLLPRI on cgroup.events.
void wait_until_empty(int directory) {
  const Fd events = open_at(directory, "cgroup.events", O_RDONLY);
  if (!events) return;
  const auto until = std::chrono::steady_clock::now() + emptying;
  for (;;) {
    char text[256];
    const ssize_t size = ::pread(events.get(), text, sizeof text, 0);
    if (size <= 0 || std::string_view(text, static_cast<std::size_t>(size)).find("populated 0") != std::string_view::npos)
      return;
    const int left = poll_timeout(until, std::chrono::steady_clock::now());
    pollfd change{events.get(), POLLPRI, 0};
    if (left == 0 || ::poll(&change, 1, left) == 0) return;
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
    if (::mkdirat(ours.get(), name_.c_str(), 0755) != 0 || !give_owners_bits(ours.get(), name_.c_str(), 0755)) return;
    parent_ = std::move(ours);
    directory_ = open_at(parent_.get(), name_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    return;
  }
}

void JobCgroup::kill() {
  if (!directory_ || has_a_queue(directory_.get())) return;   // the tree is ended one by one
  Fd all = open_at(directory_.get(), "cgroup.kill", O_WRONLY);
  if (all) static_cast<void>(write_all(all.get(), "1"));
}

void JobCgroup::remove() {
  if (!parent_) return;
  if (directory_ && !has_a_queue(directory_.get())) wait_until_empty(directory_.get());
  directory_.reset();
  remove_tree(parent_.get(), name_);
  parent_.reset();
}

}  // namespace thole::host
