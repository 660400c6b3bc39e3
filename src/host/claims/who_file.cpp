#include "host/claims/who_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace thole::host {

bool reserve_who(int fd, const SlotKeys& keys) {
  unsigned slots = 0;
  for (unsigned slot = 0; slot < keys.size(); ++slot)
    if (!keys[slot].empty()) slots = slot + 1;
  int full = ::posix_fallocate(fd, 0, who_offset(slots, 0));
  for (unsigned place = 1; place < who_places && full == 0; ++place)
    full = ::posix_fallocate(fd, who_offset(0, place), std::max<off_t>(1, who_offset(slots, 0) - who_offset(0, 0)));
  return full == 0 || full == EOPNOTSUPP;
}

void WhoFile::read_mask() {
  ssize_t size = ::pread(fd_, &mask_, sizeof mask_, 0);
  if (size != static_cast<ssize_t>(sizeof mask_)) mask_ = {};
  read_ = mask_;
}

void WhoFile::write_mask() {
  if (mask_.bits != read_.bits) (void)!::pwrite(fd_, &mask_, sizeof mask_, 0);
  read_ = mask_;
}

std::optional<HolderNote> WhoFile::read(unsigned slot, unsigned place, std::string_view key) const {
  WhoRecord record;
  if (::pread(fd_, &record, sizeof record, who_offset(slot, place)) != static_cast<ssize_t>(sizeof record)) return std::nullopt;
  return decode(record, slot, place, key);
}

bool WhoFile::write(const HolderNote& note, unsigned slot, unsigned place, std::string_view key) const {
  WhoRecord record = encode(note, slot, place, key);
  return ::pwrite(fd_, &record, sizeof record, who_offset(slot, place)) == static_cast<ssize_t>(sizeof record);
}

bool WhoFile::write(const HolderNote& note, const std::vector<unsigned>& slots, const std::vector<unsigned>& places,
                    const SlotKeys& keys) {
  bool all = true;
  std::vector<WhoRecord> run;   // neighbours: they lie side by side in the file
  for (std::size_t i = 0; i < slots.size(); ++i) {
    run.push_back(encode(note, slots[i], places[i], keys[slots[i]]));
    mask_.bits[slots[i]] |= 1u << places[i];
    bool goes_on = i + 1 < slots.size() && slots[i + 1] == slots[i] + 1 && places[i + 1] == places[i];
    if (goes_on) continue;
    auto size = static_cast<ssize_t>(run.size() * sizeof(WhoRecord));
    off_t begin = who_offset(run.front().slot, places[i]);
    all = ::pwrite(fd_, run.data(), static_cast<std::size_t>(size), begin) == size && all;
    run.clear();
  }
  return all;
}

}  // namespace thole::host
