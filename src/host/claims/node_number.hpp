// Which of all the nodes that ever were in a directory one is. While it is locked a node keeps its inode, but when its claim
// is over a file system may give that again (ext4 does, and who makes and deletes files chooses to whom; a tmpfs counts on).
// So two more are told: when it was made, which a small ext4 does not keep, and its generation, which a file system without
// handles (an overlay) does not say. Neither can be steered. The inode is told whole, as who makes files can have numbers
// skipped until any few bits are the same again.
#pragma once

#include <cstdint>

namespace thole::host {

struct NodeNumber {
  std::uint64_t inode = 0;         // 0: there is none
  std::uint32_t born = 0;          // a number of when; 0: not known
  std::uint32_t generation = 0;    // a number of its handle (name_to_handle_at(2)); 0: not known

  // What one of the two does not know says nothing.
  bool is(const NodeNumber& other) const {
    const auto is_one = [](std::uint32_t a, std::uint32_t b) { return a == 0 || b == 0 || a == b; };
    return inode == other.inode && is_one(born, other.born) && is_one(generation, other.generation);
  }
};
static_assert(sizeof(NodeNumber) == 16);

// Of what is open, as a path too. Of inode 0 with errno where it cannot be seen.
NodeNumber node_number_of(int fd);

// Has the number of a node stay as it is. In an overlay a file that its image has brought with it is a copy from its first
// change on, made then, and anybody who may write it can bring that about; so it is changed now.
void settle_number(int fd);

}  // namespace thole::host
