// What `thole init` knows of earlier ones, in its own lock file (state_dir.hpp, lock_of): nobody but root reads or writes it.
//
// A line of text for people, then for each node of a GPU that is there or was deleted by somebody else:
//   node NAME FILESYSTEM DEVICE INODE
// The number of a device is used again when nobody has anything of it open any more; FILESYSTEM (statfs) is not.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace thole::host {

struct RecordedNode {
  std::string name;
  std::uint64_t filesystem = 0, device = 0, inode = 0;
};

struct InitRecord {
  std::vector<RecordedNode> nodes;
};

InitRecord read_init_record(int file);
bool write_init_record(int file, const InitRecord& record);

}  // namespace thole::host
