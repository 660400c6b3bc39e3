#include "host/claims/node_number.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/hash.hpp"
#include "base/text.hpp"
#include "host/claims/node_handle.hpp"

namespace thole::host {
namespace {

// Never 0.
std::uint32_t short_hash(std::string_view bytes) {
  const std::uint64_t hash = fnv1a(bytes);
  return std::max(static_cast<std::uint32_t>(hash ^ (hash >> 32)), 1u);
}

}  // namespace

// A container's filter may refuse either call; then nobody there knows that.
NodeNumber node_number_of(int fd) {
  struct stat plain;
  if (::fstat(fd, &plain) != 0) return {};
  NodeNumber number{.inode = plain.st_ino};
  if (const std::string handle = handle_of(fd, ""); !handle.empty()) number.generation = short_hash(handle);
  struct statx found {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &found) == 0 && (found.stx_mask & STATX_BTIME) != 0)
    number.born = short_hash(fmt::format("{}.{}", found.stx_btime.tv_sec, found.stx_btime.tv_nsec));
  return number;
}

void settle_number(int fd) {
  struct statfs system;
  if (::fstatfs(fd, &system) == 0 && system.f_type == OVERLAYFS_SUPER_MAGIC) (void)::futimens(fd, nullptr);
}

}  // namespace thole::host
