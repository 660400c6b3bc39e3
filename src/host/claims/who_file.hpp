// The holders' records in the shared file `who`. Advisory: what is true is what the kernel has locked. Under alloc, except where
// said.
#pragma once

#include <optional>

#include "host/claims/layout.hpp"

namespace thole::host {

class WhoFile {
 public:
  explicit WhoFile(int fd) : fd_(fd) {}

  void read_mask();                                          // zero where the file is short
  bool noted(unsigned slot) const { return mask_.bits[slot] != 0; }
  void forget(unsigned slot) { changed_ |= mask_.bits[slot] != 0; mask_.bits[slot] = 0; }
  void note(unsigned slot, unsigned place);
  void write_mask();                                         // if it changed

  // Also without alloc: one record is read or written whole.
  std::optional<HolderNote> read(unsigned slot, unsigned place, std::string_view key) const;
  bool write(const HolderNote& note, unsigned slot, unsigned place, std::string_view key);  // false: disk full

 private:
  int fd_;
  WhoMask mask_{};
  bool changed_ = false;
};

}  // namespace thole::host
