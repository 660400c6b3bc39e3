#include "host/claims/own_tickets.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/claims/own_files.hpp"
#include "host/user_namespace.hpp"

namespace thole::host {
namespace {

constexpr off_t largest_of_tickets = ticket_offset(turn_places);

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

bool write_record(int fd, const Ticket& ticket) {
  const TicketRecord record = encode(ticket);
  return ::pwrite(fd, &record, sizeof record, ticket_offset(ticket.place)) == static_cast<ssize_t>(sizeof record);
}

// Written before it is live: what an earlier waiter said at this place never comes alive. errno 0: the place is not to be had.
Fd ticket_goes_live(int directory, const std::string& name, Fd fd, const Ticket& ticket) {
  const off_t live = ticket_offset(ticket.place);
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

bool says_live(int fd, const Ticket& ticket) {
  const TicketRecord wanted = encode(ticket);
  const off_t at = ticket_offset(ticket.place);
  TicketRecord said;
  return write_locked(fd, at) && ::pread(fd, &said, sizeof said, at) == static_cast<ssize_t>(sizeof said) &&
         std::memcmp(&said, &wanted, sizeof said) == 0;
}

}  // namespace

void OwnTickets::keep(Fd& live, const Ticket& ticket) {
  struct stat file;
  if (live && ::fstat(live.get(), &file) == 0 && file.st_nlink > 0 && write_record(live.get(), ticket)) return;
  live = put(ticket);
}

Fd OwnTickets::put(const Ticket& ticket) {
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

Fd OwnTickets::put_into(const std::string& name, const Ticket& ticket) {
  Fd fd = open_at(directory_, name.c_str(), to_write);
  if (!fd || !is_made_for_tickets(fd.get(), uid_, number_)) return Fd();
  return ticket_goes_live(directory_, name, std::move(fd), ticket);
}

// By their owners: anybody can give his files names of another's.
void Vouchers::list() {
  struct stat file;
  for (std::string& name : names_in(directory_, Saying::tickets)) {
    const bool seen = ::fstatat(directory_, name.c_str(), &file, AT_SYMLINK_NOFOLLOW) == 0;
    if (seen && is_file_of(file, file.st_uid) && file.st_size > 0) names_[file.st_uid].push_back(std::move(name));
  }
}

Vouchers::Files Vouchers::files_of(uid_t uid) const {
  Files files;
  const auto names = names_.find(uid);
  if (names == names_.end()) return files;
  for (const std::string& name : names->second) {
    Fd fd = open_own(directory_, name, uid, number_);
    if (!fd && says_nothing(errno)) {
      files.all = false;
      break;
    }
    if (fd) files.open.push_back(std::move(fd));
  }
  return files;
}

bool Vouchers::vouched(const Ticket& ticket) {
  if (!std::exchange(listed_, true)) list();
  auto found = files_.find(ticket.view.uid);
  if (found == files_.end()) found = files_.emplace(ticket.view.uid, files_of(ticket.view.uid)).first;
  return !found->second.all ||
         std::ranges::any_of(found->second.open, [&](const Fd& fd) { return says_live(fd.get(), ticket); });
}

bool says(int directory, const std::string& name, std::uint64_t number, const Ticket& ticket) {
  const Fd fd = open_own(directory, name, ticket.view.uid, number);
  return fd && says_live(fd.get(), ticket);
}

}  // namespace thole::host
