// Which of all the nodes that ever were in a directory one is. While it is locked a node keeps its inode, but when its claim is
// over a file system may give that again (ext4 does, and who makes and deletes files chooses to whom; a tmpfs counts on), so
// when it was made is told, too. All of both: who makes files can have numbers skipped until any few bits are the same again.
#pragma once

#include <cstdint>

namespace thole::host {

struct NodeNumber {
  std::uint64_t inode = 0;         // 0: there is none
  std::uint64_t born_ns = 0;       // since 1970; 0: the kernel does not say
  bool is(const NodeNumber& other) const {
    return inode == other.inode && (born_ns == 0 || other.born_ns == 0 || born_ns == other.born_ns);
  }
};

// Of what is open, as a path too. Of inode 0 with errno where it cannot be seen.
NodeNumber node_number_of(int fd);

}  // namespace thole::host
