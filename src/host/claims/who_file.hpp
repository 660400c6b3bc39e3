// The holders' records in the shared file `who`. Advisory: what is true is what the kernel has locked. Under alloc, except
// where said.
#pragma once

#include <optional>
#include <vector>

#include "host/claims/layout.hpp"

namespace thole::host {

// Takes the space for the records of these slots. False where the disk is full: then who holds what is not recorded.
bool reserve_who(int fd, const SlotKeys& keys);
inline constexpr off_t who_size = who_offset(0, who_places);

class WhoFile {
 public:
  explicit WhoFile(int fd) : fd_(fd) {}

  void read_mask();                                          // zero where the file is short
  bool noted(unsigned slot) const { return mask_.bits[slot] != 0; }
  void forget(unsigned slot) { mask_.bits[slot] = 0; }
  void write_mask();                                         // if it changed

  // Also without alloc: one record is read or written whole.
  std::optional<HolderNote> read(unsigned slot, unsigned place, std::string_view key) const;
  bool write(const HolderNote& note, unsigned slot, unsigned place, std::string_view key) const;  // false: disk full

  // The notes of a claim, one a slot, and their bits in the mask. False when the disk is full.
  bool write(const HolderNote& note, const std::vector<unsigned>& slots, const std::vector<unsigned>& places,
             const SlotKeys& keys);

 private:
  int fd_;
  WhoMask mask_{}, read_{};
};

}  // namespace thole::host
