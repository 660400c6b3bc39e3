// What `thole init` knows of earlier ones, in its own lock file (state_dir.hpp, lock_of): nobody but root reads or writes it.
//
// A line of text for people, then for each node of a GPU that is there or was deleted by somebody else:
//   node NAME FILESYSTEM DEVICE INODE [HANDLE]
// and the same with "taken" for each that init itself has given up in taking its GPU back, as long as somebody has it locked.
// The number of a device is used again when nobody has anything of it open any more; FILESYSTEM (statfs) is not. HANDLE
// (node_handle.hpp) opens a node that has no name any more, as long as anybody has it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.hpp"

namespace thole::host {

struct RecordedNode {
  std::string name;
  std::uint64_t filesystem = 0, device = 0, inode = 0;
  std::string handle = {};                       // "" where the file system gives none
};

struct InitRecord {
  std::vector<RecordedNode> nodes, taken;
};

// The node, by its handle (open_by_handle), also where it has no name any more. `device`: of this directory.
Fd open_recorded(int directory, std::uint64_t device, const RecordedNode& node);

InitRecord read_init_record(int file);
bool write_init_record(int file, const InitRecord& record);

}  // namespace thole::host
