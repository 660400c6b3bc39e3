#include "host/claims/who_file.hpp"

#include <unistd.h>

namespace thole::host {

void WhoFile::read_mask() {
  ssize_t size = ::pread(fd_, &mask_, sizeof mask_, 0);
  if (size != static_cast<ssize_t>(sizeof mask_)) mask_ = {};
  changed_ = false;
}

void WhoFile::note(unsigned slot, unsigned place) {
  std::uint32_t bit = 1u << place;
  changed_ |= (mask_.bits[slot] & bit) == 0;
  mask_.bits[slot] |= bit;
}

void WhoFile::write_mask() {
  if (changed_) (void)!::pwrite(fd_, &mask_, sizeof mask_, 0);
  changed_ = false;
}

std::optional<HolderNote> WhoFile::read(unsigned slot, unsigned place, std::string_view key) const {
  WhoRecord record;
  if (::pread(fd_, &record, sizeof record, who_offset(slot, place)) != static_cast<ssize_t>(sizeof record)) return std::nullopt;
  return decode(record, slot, place, key);
}

bool WhoFile::write(const HolderNote& note, unsigned slot, unsigned place, std::string_view key) {
  WhoRecord record = encode(note, slot, place, key);
  return ::pwrite(fd_, &record, sizeof record, who_offset(slot, place)) == static_cast<ssize_t>(sizeof record);
}

}  // namespace thole::host
