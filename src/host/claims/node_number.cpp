#include "host/claims/node_number.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "base/hash.hpp"

namespace thole::host {
namespace {

// Never 0.
std::uint32_t short_hash(const void* bytes, std::size_t size) {
  const std::uint64_t hash = fnv1a({static_cast<const char*>(bytes), size});
  return std::max(static_cast<std::uint32_t>(hash ^ (hash >> 32)), 1u);
}

std::uint32_t generation_of(int fd) {
  union {
    file_handle handle;
    unsigned char room[sizeof(file_handle) + MAX_HANDLE_SZ];
  } its{};
  its.handle.handle_bytes = MAX_HANDLE_SZ;
  int mount = 0;
  if (::name_to_handle_at(fd, "", &its.handle, &mount, AT_EMPTY_PATH) != 0) return 0;
  return short_hash(its.room + offsetof(file_handle, f_handle), its.handle.handle_bytes);
}

}  // namespace

// A container's filter may refuse either call; then nobody there knows that.
NodeNumber node_number_of(int fd) {
  struct stat plain;
  if (::fstat(fd, &plain) != 0) return {};
  NodeNumber number{plain.st_ino, 0, generation_of(fd)};
  struct statx found {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &found) == 0 && (found.stx_mask & STATX_BTIME) != 0)
    number.born = short_hash(&found.stx_btime, offsetof(statx_timestamp, tv_nsec) + sizeof found.stx_btime.tv_nsec);
  return number;
}

void settle_number(int fd) {
  struct statfs system;
  if (::fstatfs(fd, &system) == 0 && system.f_type == OVERLAYFS_SUPER_MAGIC) (void)::futimens(fd, nullptr);
}

}  // namespace thole::host
