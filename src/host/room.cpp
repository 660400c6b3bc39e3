#include "host/room.hpp"

#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

namespace thole::host {
namespace {

std::optional<struct statfs> look_at(const std::string& path) {
  struct statfs space {};
  return ::statfs(path.c_str(), &space) == 0 ? std::optional(space) : std::nullopt;
}

// Blocks that are told as free and that nobody gets: ext4 keeps a fiftieth of all blocks back for itself, 4096 at most
// (ext4_calculate_resv_clusters). Of all it tells only those that are not its own, so that a fiftieth is not known exactly.
std::uint64_t kept_back(const struct statfs& space) {
  return space.f_type == EXT4_SUPER_MAGIC ? std::min<std::uint64_t>(space.f_blocks / 25, 4096) : 0;
}

std::uint64_t for_root(const struct statfs& space) {
  return space.f_bfree - std::min<std::uint64_t>(space.f_bfree, kept_back(space));
}

}  // namespace

bool lacks_bytes(const std::string& path, std::uint64_t least, Whose whose) {
  const auto space = look_at(path);
  if (!space || space->f_blocks == 0) return false;
  const bool has_reserve = whose == Whose::ours && ::geteuid() == 0;
  const std::uint64_t blocks = has_reserve ? std::max<std::uint64_t>(for_root(*space), space->f_bavail) : space->f_bavail;
  return blocks * static_cast<std::uint64_t>(space->f_frsize) < least;
}

bool lacks_files(const std::string& path) {
  const auto space = look_at(path);
  return space && space->f_files != 0 && space->f_ffree == 0;
}

}  // namespace thole::host
