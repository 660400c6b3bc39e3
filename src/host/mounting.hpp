// Which mounting of its file system a file is on: what had not been synced is gone where that was taken down without a sync (an
// error, a forced detaching) and mounted again, without any boot of the machine in between.
//
// How this works. While a file system is mounted, anywhere, the kernel has a directory of it in /sys/fs, whose inode number is
// never given again under one boot (fs/kernfs/dir.c: idr_alloc_cyclic() with a generation). It is the same for all mounts and
// namespaces that show the same mounting.
#pragma once

#include <cstdint>

#include "base/fd.hpp"

namespace thole::host {

// 0 where that cannot be told: other file systems than ext4, xfs, f2fs and btrfs, or no /sys.
std::uint64_t mounting_of(const Fd& file);

}  // namespace thole::host
