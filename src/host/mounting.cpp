#include "host/mounting.hpp"

#include <linux/btrfs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <string>
#include <string_view>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {
namespace {

constexpr unsigned long xfs_magic = 0x58465342;  // XFS_SB_MAGIC, which no header for programs has

// As the kernel names its block device, with `!` for `/`. Empty: it has none.
std::string device_name(const Fd& file) {
  struct stat about{};
  if (::fstat(file.get(), &about) != 0) return {};
  const std::string path = read_link(fmt::format("/sys/dev/block/{}:{}", major(about.st_dev), minor(about.st_dev)));
  return path.substr(path.rfind('/') + 1);
}

std::string btrfs_name(const Fd& file) {
  btrfs_ioctl_fs_info_args about{};
  if (::ioctl(file.get(), BTRFS_IOC_FS_INFO, &about) != 0) return {};
  std::string uuid;
  for (std::size_t i = 0; i < sizeof about.fsid; ++i)
    uuid += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", about.fsid[i]);
  return uuid;
}

}  // namespace

std::uint64_t mounting_of(const Fd& file) {
  struct statfs kind {};
  if (!file || ::fstatfs(file.get(), &kind) != 0) return 0;
  std::string_view type;
  std::string name;
  switch (static_cast<unsigned long>(kind.f_type)) {
    case EXT4_SUPER_MAGIC: type = "ext4", name = device_name(file); break;   // ext2 and ext3 too
    case F2FS_SUPER_MAGIC: type = "f2fs", name = device_name(file); break;
    case xfs_magic: type = "xfs", name = device_name(file); break;
    case BTRFS_SUPER_MAGIC: type = "btrfs", name = btrfs_name(file); break;
    default: return 0;
  }
  struct stat about{};
  if (name.empty() || ::stat(fmt::format("/sys/fs/{}/{}", type, name).c_str(), &about) != 0) return 0;
  return about.st_ino;
}

}  // namespace thole::host
