// The waiters' tickets in the shared file `queue`. Everything here happens under alloc.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "host/claims/layout.hpp"

namespace thole::host {

// Keeps its buffers from one reading to the next: with hundreds of waiters their page faults would cost more than the reading.
class QueueFile {
 public:
  explicit QueueFile(int fd) : fd_(fd) {}

  // Reads what is in use. Corrupt records and places beyond a truncated end count as empty.
  void read();
  const std::vector<Ticket>& tickets() const { return tickets_; }   // in order of arrival; some may be dead
  std::uint64_t next_number() const;                                 // larger than every number seen
  std::vector<unsigned> empty_places() const;                        // lowest first

  // Writes a ticket in its place and counts its number as given out. False when the disk is full.
  bool write(const Ticket& ticket);
  void wipe(unsigned place);

 private:
  int fd_;
  QueueHeader header_{};
  std::vector<TicketRecord> records_;
  std::vector<std::pair<std::uint64_t, unsigned>> order_;   // number, place
  std::vector<Ticket> tickets_;
};

}  // namespace thole::host
