#include "host/claims/own_tmpfs.hpp"

#include <dirent.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "base/fd.hpp"

namespace thole::host {
namespace {

// The same in packaging/run-thole.mount.
constexpr const char* size_of_it = "size=4m,nr_inodes=8k,mode=0755";

bool in_the_namespace_of_pid_1() {
  struct stat mine, first;
  return ::stat("/proc/self/ns/mnt", &mine) == 0 && ::stat("/proc/1/ns/mnt", &first) == 0 && mine.st_ino == first.st_ino &&
         mine.st_dev == first.st_dev;
}

bool has_its_own(const std::string& directory) {
  struct stat here, above;
  return ::stat(directory.c_str(), &here) == 0 && ::stat((directory + "/..").c_str(), &above) == 0 &&
         here.st_dev != above.st_dev;
}

bool has_locks(const std::string& directory) {
  std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory.c_str()), &::closedir);
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr)
    if (std::string_view(entry->d_name).starts_with("gpu.")) return true;
  return false;
}

}  // namespace

std::string mount_own_tmpfs(const std::string& directory) {
  if (has_its_own(directory) || has_locks(directory) || !in_the_namespace_of_pid_1()) return "";
  if (::mount("thole", directory.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, size_of_it) == 0) return "";
  return directory + " gets no file system of its own (" + std::strerror(errno) + "): its records can fill the one it lies on";
}

}  // namespace thole::host
