#include "host/claims/queue_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/machine_clocks.hpp"

namespace thole::host {

bool make_queue(int fd) {
  const QueueHeader header = fresh_queue_header();
  const int full = ::posix_fallocate(fd, 0, queue_size);
  return ::pwrite(fd, &header, sizeof header, 0) == sizeof header && (full == 0 || full == EOPNOTSUPP);
}

std::uint64_t boot_clock_us() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(machine_up()).count());
}

void QueueFile::read() {
  now_ = boot_clock_us();
  known_.swap(records_);
  read_records();
  if (!take_over_changes()) take_over_all();
}

void QueueFile::read_records() {
  // One call reads the header and, as a rule, all records in use: as many as last time, and a few more.
  struct { QueueHeader header; TicketRecord first[7]; } head{};
  ssize_t size = ::pread(fd_, &head, sizeof head, 0);
  header_ = sanitised(size >= static_cast<ssize_t>(sizeof(QueueHeader)) ? head.header : QueueHeader{});
  records_.assign(head.first, head.first + std::min<std::uint32_t>(header_.used, 7));
  if (header_.used <= 7) return;
  records_.resize(header_.used);
  ssize_t more = ::pread(fd_, records_.data() + 7, (header_.used - 7) * sizeof(TicketRecord), ticket_offset(7));
  std::size_t whole = 7 + (more > 0 ? static_cast<std::size_t>(more) / sizeof(TicketRecord) : 0);
  std::fill(records_.begin() + static_cast<std::ptrdiff_t>(whole), records_.end(), TicketRecord{});
}

bool QueueFile::take_over_changes() {
  static const TicketRecord nothing{};
  std::array<unsigned, few_changes> changed;
  std::size_t changes = 0;
  for (unsigned index = 0; index < std::max(known_.size(), records_.size()); ++index) {
    const TicketRecord& before = index < known_.size() ? known_[index] : nothing;
    const TicketRecord& after = index < records_.size() ? records_[index] : nothing;
    if (std::memcmp(&before, &after, sizeof before) == 0) continue;
    if (changes == changed.size()) return false;
    changed[changes++] = index;
  }
  for (std::size_t i = 0; i < changes; ++i) {
    forget(changed[i]);
    WrittenTicket ticket;
    if (changed[i] < records_.size() && decode(records_[changed[i]], changed[i], now_, ticket)) insert(ticket);
  }
  return true;
}

void QueueFile::take_over_all() {
  order_.clear();
  for (unsigned index = 0; index < records_.size(); ++index)
    if (records_[index].number != 0) order_.push_back({records_[index].number, index});
  // Records are given out round and round: as a rule the order is once round a ring.
  std::rotate(order_.begin(), std::is_sorted_until(order_.begin(), order_.end()), order_.end());
  if (!std::is_sorted(order_.begin(), order_.end())) std::sort(order_.begin(), order_.end());
  tickets_.resize(order_.size());
  std::size_t valid = 0;
  for (auto [number, index] : order_)
    if (decode(records_[index], index, now_, tickets_[valid])) ++valid;
  tickets_.resize(valid);
}

void QueueFile::forget(unsigned index) {
  auto found = std::ranges::find(tickets_, index, &WrittenTicket::index);
  if (found != tickets_.end()) tickets_.erase(found);
}

// In the order of (number, index), also where a forger has given two tickets one number.
void QueueFile::insert(const WrittenTicket& ticket) {
  auto later = std::upper_bound(tickets_.begin(), tickets_.end(), ticket, [](const WrittenTicket& a, const WrittenTicket& b) {
    return std::pair(a.view.number, a.index) < std::pair(b.view.number, b.index);
  });
  tickets_.insert(later, ticket);
}

std::uint64_t QueueFile::next_number() const {
  std::uint64_t now = boot_clock_us();
  while (!tickets_.empty() && now <= tickets_.back().view.number) now = boot_clock_us();   // numbers that count are past
  return now;
}

std::vector<unsigned> QueueFile::empty_records() const {
  std::bitset<most_tickets> taken;
  for (const WrittenTicket& ticket : tickets_) taken.set(ticket.index);
  std::vector<unsigned> empty;
  for (unsigned index = 0; index < most_tickets; ++index)
    if (!taken.test(index)) empty.push_back(index);
  return empty;
}

bool QueueFile::write(const WrittenTicket& ticket) {
  // The header first: an index marked as used without a ticket is only read in vain.
  QueueHeader header = header_;
  header.used = std::max(header.used, ticket.index + 1);
  if (header.used != header_.used) {
    if (::pwrite(fd_, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) return false;
    header_ = header;
  }
  TicketRecord record = encode(ticket);
  if (::pwrite(fd_, &record, sizeof record, ticket_offset(ticket.index)) != static_cast<ssize_t>(sizeof record)) return false;
  if (records_.size() <= ticket.index) records_.resize(ticket.index + 1);
  records_[ticket.index] = record;
  forget(ticket.index);
  insert(ticket);
  return true;
}

void QueueFile::wipe(unsigned index) {
  static const TicketRecord nothing{};
  (void)!::pwrite(fd_, &nothing, sizeof nothing, ticket_offset(index));
  if (index < records_.size()) records_[index] = nothing;
  forget(index);
  if (index + 1 != header_.used) return;
  std::uint32_t used = 0;
  for (const WrittenTicket& ticket : tickets_) used = std::max(used, ticket.index + 1);
  header_.used = used;
  (void)!::pwrite(fd_, &header_, sizeof header_, 0);
}

}  // namespace thole::host
