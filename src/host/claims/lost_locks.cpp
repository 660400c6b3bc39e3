#include "host/claims/lost_locks.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>

#include "base/fd.hpp"

namespace thole::host {
namespace {

using Listing = std::unique_ptr<DIR, int (*)(DIR*)>;

Listing list(const std::string& path) { return {::opendir(path.c_str()), &::closedir}; }

std::string link_of(int directory, const char* name) {
  char text[512];
  const ssize_t size = ::readlinkat(directory, name, text, sizeof text);
  return std::string(text, size > 0 ? static_cast<std::size_t>(size) : 0);
}

// "gpu.X" of "/run/thole/gpu.X", and of "/run/thole/gpu.X (deleted)", which is lost; "" for what is called like no node.
std::string name_of_node(std::string_view link, bool& lost) {
  constexpr std::string_view deleted = " (deleted)";
  lost = link.ends_with(deleted);
  if (lost) link.remove_suffix(deleted.size());
  link.remove_prefix(link.rfind('/') + 1);   // a container has it elsewhere
  return link.starts_with("gpu.") || link.starts_with("share.") || link.starts_with("turn.") ? std::string(link) : "";
}

// What is known of it already: a file system of a user's own program is never asked, for it could keep us waiting.
bool is_node(int directory, const char* fd, uid_t owner, const std::vector<std::uint64_t>& devices, NodeLock& lock) {
  struct statx node;
  if (::statx(directory, fd, AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &node) != 0) return false;
  const std::uint64_t device = makedev(node.stx_dev_major, node.stx_dev_minor);
  lock.ino = node.stx_ino;
  lock.lost = lock.lost || device != devices.back();
  return S_ISFIFO(node.stx_mode) && (node.stx_mode & 0777) != 0 && node.stx_uid == owner &&
         std::find(devices.begin(), devices.end(), device) != devices.end();
}

bool is_locked(const std::string& process, const char* fd) {
  const auto info = read_file(process + "/fdinfo/" + fd);
  return info && info->find("FLOCK") != std::string::npos;
}

}  // namespace

std::vector<NodeLock> node_locks(uid_t owner, const std::vector<std::uint64_t>& devices) {
  std::vector<NodeLock> found;
  Listing processes = list(devices.empty() ? "" : "/proc");
  while (const dirent* process = processes ? ::readdir(processes.get()) : nullptr) {
    const std::string_view number = process->d_name;
    NodeLock lock;
    if (std::from_chars(number.data(), number.data() + number.size(), lock.pid).ptr != number.data() + number.size()) continue;
    const std::string folder = "/proc/" + std::string(number);
    Listing descriptors = list(folder + "/fd");
    while (const dirent* fd = descriptors ? ::readdir(descriptors.get()) : nullptr) {
      const int in = ::dirfd(descriptors.get());
      lock.node = name_of_node(link_of(in, fd->d_name), lock.lost);
      if (!lock.node.empty() && is_node(in, fd->d_name, owner, devices, lock) && is_locked(folder, fd->d_name))
        found.push_back(lock);
    }
  }
  return found;
}

}  // namespace thole::host
