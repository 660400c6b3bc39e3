// The waiters' tickets in the shared file `queue`. Everything here happens under alloc.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "host/claims/layout.hpp"

namespace thole::host {

// A fresh queue in an empty file, its space taken. False where the disk is full: then waiting is without order.
bool make_queue(int fd);
inline constexpr off_t queue_size = ticket_offset(most_tickets);

// CLOCK_BOOTTIME in us: the same for all processes of the machine, but for those in a time namespace.
std::uint64_t boot_clock_us();

// Keeps what it read from one reading to the next and decodes only what has changed: with hundreds of waiters the owner-to-be
// would otherwise spend more time on their tickets than on his own lock.
class QueueFile {
 public:
  explicit QueueFile(int fd) : fd_(fd) {}

  // Reads what is in use. Corrupt records and those beyond a truncated end count as empty; so does a number from the future.
  void read();
  const std::vector<WrittenTicket>& tickets() const { return tickets_; }   // in order of arrival; some may be dead
  std::uint64_t next_number() const;                                 // this moment; larger than every number that counts
  std::vector<unsigned> empty_records() const;                       // lowest first

  // Writes a ticket into its record and counts its number as given out. False when the disk is full.
  bool write(const WrittenTicket& ticket);
  void wipe(unsigned index);

 private:
  static constexpr std::size_t few_changes = 16;   // more of them: decode everything

  void read_records();
  bool take_over_changes();            // of records_ against known_; false, with tickets_ as it was, when they are not few
  void take_over_all();
  void forget(unsigned index);
  void insert(const WrittenTicket& ticket);

  int fd_;
  std::uint64_t now_ = 0;              // at the last reading
  QueueHeader header_{};
  std::vector<TicketRecord> records_;  // as in the file now …
  std::vector<TicketRecord> known_;    // … and as at the reading before
  std::vector<std::pair<std::uint64_t, unsigned>> order_;   // number, index
  std::vector<WrittenTicket> tickets_;
};

}  // namespace thole::host
