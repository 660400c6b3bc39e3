#include "base/nameless_files.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <optional>

#include "base/standard.hpp"

namespace thole {
namespace {

constexpr off_t plenty = 32 << 20;               // more than file systems keep back for themselves
constexpr off_t some = 64 * 1024;                // as much as is written at once, as a rule

// Only an allocation tells of a quota. What is allocated is given back at once, or the next trial would get it again.
bool can_be_had(int trial, off_t size) {
  if (::fallocate(trial, 0, 0, size) == 0) return (void)!::ftruncate(trial, 0), true;
  return errno != ENOSPC && errno != EDQUOT && errno != EROFS && errno != EIO;
}

// Nothing of what has no size: of the kernel's own, in which memfd_create makes its files.
std::optional<struct statfs> disk_of(int file) {
  struct statfs disk;
  return ::fstatfs(file, &disk) == 0 && disk.f_blocks != 0 ? std::optional(disk) : std::nullopt;
}

bool has_plenty(const struct statfs& disk) {
  return disk.f_bavail * static_cast<std::uint64_t>(disk.f_bsize) >= static_cast<std::uint64_t>(plenty);
}

Fd in_memory(int flags) {
  Fd file(above_standard(::memfd_create("thole-output", MFD_CLOEXEC)));
  if (file && flags != 0 && ::fcntl(file.get(), F_SETFL, flags) != 0) file.reset();
  return file;
}

}  // namespace

bool is_on_disk(int nameless_file) { return disk_of(nameless_file).has_value(); }

bool NamelessFiles::has_free_room() const {
  const auto disk = trial_ ? disk_of(trial_.get()) : std::nullopt;
  return !disk || has_plenty(*disk);
}

bool NamelessFiles::has_little_room() const {
  const auto disk = trial_ ? disk_of(trial_.get()) : std::nullopt;
  if (!disk) return false;
  const off_t tried = disk->f_type == TMPFS_MAGIC ? some : plenty;   // what is allocated there is written
  return !has_plenty(*disk) || !can_be_had(trial_.get(), tried);
}

bool NamelessFiles::takes_no_more() const {
  const auto disk = trial_ ? disk_of(trial_.get()) : std::nullopt;
  return disk && (disk->f_bavail == 0 || !can_be_had(trial_.get(), some));
}

Fd NamelessFiles::make(int flags) {
  const auto on_disk = [&](int more) { return open_at(AT_FDCWD, folder_.c_str(), O_TMPFILE | O_RDWR | more, 0600); };
  if (!trial_) trial_ = on_disk(0);
  Fd file = trial_ && !has_little_room() ? on_disk(flags) : Fd();
  return file ? std::move(file) : in_memory(flags);
}

}  // namespace thole
