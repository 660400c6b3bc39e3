// A lock of bytes of a file, as fcntl(2) takes it.
#pragma once

#include <fcntl.h>

namespace thole {

// `length` 0: to the end of the file, however long it becomes.
inline struct flock byte_range(short type, off_t from, off_t length) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = from;
  range.l_len = length;
  return range;
}

}  // namespace thole
