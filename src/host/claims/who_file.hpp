// The shared file `who`: which slots somebody has claimed and nobody has seen free since. A hint where to look first, for every
// pass; what is true is what the kernel has locked. Under alloc.
#pragma once

#include "host/claims/layout.hpp"

namespace thole::host {

// Takes its space, and cuts off what older versions noted there. False where the disk is full: then every look tries every
// slot.
bool reserve_who(int fd);
inline constexpr off_t who_size = sizeof(WhoMask);

class WhoFile {
 public:
  explicit WhoFile(int fd) : fd_(fd) {}

  void read();                                               // nothing where the file is short
  bool noted(unsigned slot) const { return mask_.slots[slot] != 0; }
  void note(unsigned slot) { mask_.slots[slot] = 1; }
  void forget(unsigned slot) { mask_.slots[slot] = 0; }
  void write();                                              // if it changed

 private:
  int fd_;
  WhoMask mask_{}, read_{};
};

}  // namespace thole::host
