#include "host/claims/queue_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <bitset>

namespace thole::host {

void QueueFile::read() {
  // One call reads the header and, as a rule, all places in use: as many as last time, and a few more.
  struct { QueueHeader header; TicketRecord first[7]; } head{};
  ssize_t size = ::pread(fd_, &head, sizeof head, 0);
  header_ = sanitised(size >= static_cast<ssize_t>(sizeof(QueueHeader)) ? head.header : QueueHeader{});
  records_.assign(head.first, head.first + std::min<std::uint32_t>(header_.used, 7));
  if (header_.used > 7) {
    records_.resize(header_.used);
    ssize_t more = ::pread(fd_, records_.data() + 7, (header_.used - 7) * sizeof(TicketRecord), ticket_offset(7));
    std::size_t whole = 7 + (more > 0 ? static_cast<std::size_t>(more) / sizeof(TicketRecord) : 0);
    std::fill(records_.begin() + static_cast<std::ptrdiff_t>(whole), records_.end(), TicketRecord{});
  }
  order_.clear();
  for (unsigned place = 0; place < records_.size(); ++place)
    if (records_[place].number != 0) order_.push_back({records_[place].number, place});
  // Places are given out round and round: as a rule the order is one turn of a ring.
  std::rotate(order_.begin(), std::is_sorted_until(order_.begin(), order_.end()), order_.end());
  if (!std::is_sorted(order_.begin(), order_.end())) std::sort(order_.begin(), order_.end());
  tickets_.resize(order_.size());
  std::size_t valid = 0;
  for (auto [number, place] : order_)
    if (decode(records_[place], place, tickets_[valid])) ++valid;
  tickets_.resize(valid);
}

std::uint64_t QueueFile::next_number() const {
  return tickets_.empty() ? header_.next : std::max(header_.next, tickets_.back().view.number + 1);
}

std::vector<unsigned> QueueFile::empty_places() const {
  std::bitset<turn_places> taken;
  for (const Ticket& ticket : tickets_) taken.set(ticket.place);
  std::vector<unsigned> places;
  for (unsigned place = 0; place < turn_places; ++place)
    if (!taken.test(place)) places.push_back(place);
  return places;
}

bool QueueFile::write(const Ticket& ticket) {
  // The header first: a number is never given out twice, and a place marked as used without a ticket is only read in vain.
  QueueHeader header = header_;
  header.next = std::max(header.next, ticket.view.number + 1);
  header.used = std::max(header.used, ticket.place + 1);
  if (header.next != header_.next || header.used != header_.used) {
    if (::pwrite(fd_, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) return false;
    header_ = header;
  }
  TicketRecord record = encode(ticket);
  if (::pwrite(fd_, &record, sizeof record, ticket_offset(ticket.place)) != static_cast<ssize_t>(sizeof record)) return false;
  std::erase_if(tickets_, [&](const Ticket& other) { return other.place == ticket.place; });
  auto later = std::upper_bound(tickets_.begin(), tickets_.end(), ticket.view.number,
                                [](std::uint64_t number, const Ticket& other) { return number < other.view.number; });
  tickets_.insert(later, ticket);
  return true;
}

void QueueFile::wipe(unsigned place) {
  static const TicketRecord nothing{};
  (void)!::pwrite(fd_, &nothing, sizeof nothing, ticket_offset(place));
  std::erase_if(tickets_, [&](const Ticket& ticket) { return ticket.place == place; });
  if (place + 1 != header_.used) return;
  std::uint32_t used = 0;
  for (const Ticket& ticket : tickets_) used = std::max(used, ticket.place + 1);
  header_.used = used;
  (void)!::pwrite(fd_, &header_, sizeof header_, 0);
}

}  // namespace thole::host
