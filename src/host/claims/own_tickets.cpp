#include "host/claims/own_tickets.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/own_files.hpp"
#include "host/user_namespace.hpp"

namespace thole::host {
namespace {

constexpr off_t largest_of_tickets = ticket_offset(most_tickets);

// What it may cost to hear one user, whose files may be full of locks, and all of them, unless they are hundreds.
constexpr std::chrono::milliseconds to_hear{20}, to_hear_all{200}, least_to_hear{1}, most_to_hear_all{1000};
constexpr std::uint64_t last_number = std::numeric_limits<std::uint64_t>::max();

bool read_header(int fd, QueueHeader& header) {
  return ::pread(fd, &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header);
}

// Somebody who can write where one of my files lies could move it here: only what was made for this is written to.
bool is_made_for_tickets(int fd, uid_t uid, std::uint64_t number) {
  struct stat file;
  QueueHeader header{};
  return ::fstat(fd, &file) == 0 && is_file_of(file, uid) && (file.st_mode & 07777) == open_to_readers &&
         file.st_size <= largest_of_tickets && read_header(fd, header) && is_header_of_own(header, number);
}

bool write_record(int fd, const WrittenTicket& ticket) {
  const TicketRecord record = encode(ticket);
  return ::pwrite(fd, &record, sizeof record, ticket_offset(ticket.index)) == static_cast<ssize_t>(sizeof record);
}

// Written before it is live: what an earlier waiter said there never comes alive. errno 0: the record is not to be had.
Fd ticket_goes_live(int directory, const std::string& name, Fd fd, const WrittenTicket& ticket) {
  const off_t live = ticket_offset(ticket.index);
  if (!write_locked(fd.get(), live)) {
    if (!write_record(fd.get(), ticket)) return Fd();
    if (lock(fd.get(), live) && named(directory, name.c_str(), fd.get())) return fd;
  }
  errno = 0;
  return Fd();
}

// Empty, with errno 0, where it is no such file.
Fd open_own(int directory, const std::string& name, uid_t uid, std::uint64_t number) {
  Fd fd = open_at(directory, name.c_str(), only_look);
  struct stat file;
  QueueHeader header{};
  if (!fd) return fd;
  const bool his = ::fstat(fd.get(), &file) == 0 && is_file_of(file, uid);
  if (his && read_header(fd.get(), header) && is_header_of_own(header, number)) return fd;
  errno = 0;
  return Fd();
}

bool says_live(int fd, const WrittenTicket& ticket) {
  const TicketRecord wanted = encode(ticket);
  const off_t at = ticket_offset(ticket.index);
  TicketRecord said;
  return write_locked(fd, at) && ::pread(fd, &said, sizeof said, at) == static_cast<ssize_t>(sizeof said) &&
         std::memcmp(&said, &wanted, sizeof said) == 0;
}

}  // namespace

void OwnTickets::keep(Fd& live, const WrittenTicket& ticket) {
  struct stat file;
  if (live && ::fstat(live.get(), &file) == 0 && file.st_nlink > 0 && write_record(live.get(), ticket)) return;
  live = put(ticket);
}

Fd OwnTickets::put(const WrittenTicket& ticket) {
  if (!is_known_owner(uid_)) return errno = EPERM, Fd();
  if (!name_.empty())
    if (Fd kept = put_into(name_, ticket)) return kept;
  const std::vector<std::string> names = names_of(directory_, uid_, Saying::tickets);
  for (std::size_t i = 0; i < std::min(names.size(), names_tried); ++i) {
    Fd kept = put_into(names[i], ticket);
    if (!kept) continue;
    name_ = names[i];
    return kept;
  }
  if (names.size() >= files_of_a_stranger / 2)
    remove_idle(directory_, names, [&](int fd) { return is_made_for_tickets(fd, uid_, number_); });
  return new_own_file(directory_, uid_, Saying::tickets, name_, [&](const std::string& name, Fd fd) {
    const QueueHeader header = header_of_own(number_);
    if (::pwrite(fd.get(), &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) return Fd();
    return ticket_goes_live(directory_, name, std::move(fd), ticket);
  });
}

Fd OwnTickets::put_into(const std::string& name, const WrittenTicket& ticket) {
  Fd fd = open_at(directory_, name.c_str(), to_write);
  if (!fd || !is_made_for_tickets(fd.get(), uid_, number_)) return Fd();
  return ticket_goes_live(directory_, name, std::move(fd), ticket);
}

namespace {

// Their files, who has few first: no crowd of users keeps him from being heard.
using FilesOfUsers = std::vector<std::pair<uid_t, std::vector<std::string>>>;
FilesOfUsers files_in_turn(int directory, const std::function<bool(uid_t)>& of) {
  FilesOfUsers in_turn;
  for (auto& [uid, files] : names_by_owner(directory, Saying::tickets, of)) {
    if (files.size() > names_tried) files.resize(names_tried);
    in_turn.emplace_back(uid, std::move(files));
  }
  std::ranges::stable_sort(in_turn, {}, [](const auto& entry) { return entry.second.size(); });
  return in_turn;
}

// With each file of these users, one open at a time. To each of them the same of the time: what somebody makes long of his own
// is his loss alone.
using Hear = std::function<void(uid_t uid, int fd, Allowance& his)>;
void hear(int directory, std::uint64_t number, const FilesOfUsers& users, const Hear& one) {
  if (users.empty()) return;
  const auto share = std::clamp<std::chrono::nanoseconds>(to_hear_all / users.size(), least_to_hear, to_hear);
  Allowance all(most_to_hear_all);
  for (const auto& [uid, files] : users) {
    Allowance his(share);
    for (const std::string& name : files) {
      if (his.over() || all.over()) break;
      if (const Fd fd = open_own(directory, name, uid, number)) one(uid, fd.get(), his);
    }
  }
}

}  // namespace

std::vector<bool> vouched_among(int directory, std::uint64_t number, std::span<const WrittenTicket> tickets) {
  std::vector<bool> said(tickets.size(), false);
  std::map<uid_t, std::vector<std::size_t>> tickets_of;
  for (std::size_t i = 0; i < tickets.size(); ++i) tickets_of[tickets[i].view.uid].push_back(i);
  const FilesOfUsers users = files_in_turn(directory, [&](uid_t uid) { return tickets_of.contains(uid); });
  hear(directory, number, users, [&](uid_t uid, int fd, Allowance& his) {
    for (const std::size_t i : tickets_of[uid]) {
      if (his.over()) return;
      said[i] = said[i] || says_live(fd, tickets[i]);
    }
  });
  return said;
}

std::vector<model::InLine> in_line_among(int directory, std::uint64_t number, const model::SlotSet& units, std::size_t most,
                                         const std::function<bool(uid_t)>& of) {
  std::vector<model::InLine> said;
  std::vector<TicketRecord> records(most_tickets);
  const FilesOfUsers users = files_in_turn(directory, of);
  hear(directory, number, users, [&](uid_t uid, int fd, Allowance& his) {
    const ssize_t bytes = ::pread(fd, records.data(), records.size() * sizeof records[0], ticket_offset(0));
    const std::size_t there = bytes > 0 ? static_cast<std::size_t>(bytes) / sizeof records[0] : 0;
    for (unsigned index = 0; index < there && !his.over() && said.size() < most; ++index) {
      const std::optional<WrittenTicket> ticket = decode(records[index], index, last_number);
      if (!ticket || ticket->view.uid != uid || (ticket->view.eligible & units).none()) continue;
      if (write_locked(fd, ticket_offset(index))) said.emplace_back(ticket->view.number, uid);
    }
  });
  return said;
}

bool says(int directory, const std::string& name, std::uint64_t number, const WrittenTicket& ticket) {
  const Fd fd = open_own(directory, name, ticket.view.uid, number);
  return fd && says_live(fd.get(), ticket);
}

}  // namespace thole::host
