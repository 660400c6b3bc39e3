#include "host/claims/lost_locks.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

// "/run/thole/gpu.X (deleted)", or "/gpu.X" of a file system that is mounted nowhere any more; "" for any other.
std::string lost_name(std::string_view link, const std::string& directory) {
  constexpr std::string_view deleted = " (deleted)";
  const bool marked = link.ends_with(deleted);
  if (marked) link.remove_suffix(deleted.size());
  if (marked && link.starts_with(directory + "/")) return std::string(link.substr(directory.size() + 1));
  if (link.starts_with("/gpu.")) return std::string(link.substr(1));
  return "";
}

bool is_locked(const std::string& process, const char* fd) {
  const auto info = read_file(process + "/fdinfo/" + fd);
  return info && info->find("FLOCK") != std::string::npos;
}

}  // namespace

std::vector<LostLock> lost_locks(const std::string& directory) {
  std::vector<LostLock> found;
  Listing processes = list("/proc");
  while (const dirent* process = processes ? ::readdir(processes.get()) : nullptr) {
    const std::string_view number = process->d_name;
    LostLock lock;
    if (std::from_chars(number.data(), number.data() + number.size(), lock.pid).ptr != number.data() + number.size()) continue;
    const std::string folder = "/proc/" + std::string(number);
    Listing descriptors = list(folder + "/fd");
    while (const dirent* fd = descriptors ? ::readdir(descriptors.get()) : nullptr) {
      lock.node = lost_name(link_of(::dirfd(descriptors.get()), fd->d_name), directory);
      struct stat node;
      if (!lock.node.starts_with("gpu.") || ::fstatat(::dirfd(descriptors.get()), fd->d_name, &node, 0) != 0) continue;
      if (S_ISFIFO(node.st_mode) && (node.st_mode & 0777) != 0 && is_locked(folder, fd->d_name)) found.push_back(lock);
    }
  }
  return found;
}

}  // namespace thole::host
