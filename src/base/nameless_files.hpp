// Files that nobody else finds, for what is only on its way: in one folder; in memory where its disk has none, or little room.
#pragma once

#include <string>
#include <utility>

#include "base/fd.hpp"

namespace thole {

class NamelessFiles {
 public:
  explicit NamelessFiles(std::string folder) : folder_(std::move(folder)) {}

  const std::string& folder() const { return folder_; }

  // For reading and writing. O_APPEND may be among the flags. Empty on failure (errno is set).
  Fd make(int flags = 0);

  // Whoever writes into such a file learns of a full disk, or a quota that is reached, and perhaps nobody else. So others ask.
  // That there is little room is known before there is none: of a disk by a look, of a quota by a trial, which costs as much as
  // some files. All is well where nothing was made on the disk.
  bool has_free_room() const;                    // as the disk tells
  bool has_little_room() const;
  bool takes_no_more() const;

 private:
  std::string folder_;
  Fd trial_;                                     // nothing is ever in it
};

// In the folder, and not in memory.
bool is_on_disk(int nameless_file);

}  // namespace thole
