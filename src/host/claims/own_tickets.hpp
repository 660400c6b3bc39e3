// The ticket of a waiter as he alone can say it. Everybody can write to `queue`, so a ticket there keeps nobody from a unit by
// itself: it counts where its user says the same, word for word, in a file of his own in notes/ (own_files.hpp), and lives.
//
// How this works. Such a file is laid out as `queue` is: at a waiter's index lies his ticket, live while an OFD write lock lies
// on the record's first byte. Nobody else of his user's can have that index: he has its turn FIFO locked. So nobody's word but
// his own keeps others waiting; and what has no word at all (forged, overwritten, its FIFO's lock left in a socket) is passed
// over by whoever looks. It needs no /proc: it works under hidepid and in other pid namespaces. (A child that a waiter has
// forked keeps his word as it keeps his FIFO's lock.)
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "host/claims/layout.hpp"

namespace thole::host {

// Those of this user in one directory (`number`: number_of(it)). For one thread at a time.
class OwnTickets {
 public:
  OwnTickets(int directory, uid_t uid, std::uint64_t number) : directory_(directory), uid_(uid), number_(number) {}

  // Says this ticket by `live`, which keeps it live while it is open: where it stands already, else (`thole init` may have
  // deleted that) in a file that takes it. Empty afterwards when it cannot be said (errno says why): then others pass it.
  void keep(Fd& live, const WrittenTicket& ticket);

 private:
  Fd put(const WrittenTicket& ticket);
  Fd put_into(const std::string& name, const WrittenTicket& ticket);

  int directory_;
  uid_t uid_;
  std::uint64_t number_;
  std::string name_;                   // the file that served last
};

// Does this file of notes/ say this ticket, and live?
bool says(int directory, const std::string& name, std::uint64_t number, const WrittenTicket& ticket);

// Of these tickets those whose users say them, and live. Not where that cannot be seen, or takes longer than it may: what
// somebody makes long or many of his own is his own loss, and a look never needs more than one descriptor.
std::vector<bool> vouched_among(int directory, std::uint64_t number, std::span<const WrittenTicket> tickets);

// Who of these users says, and lives, that he waits for some of these units. At most `most`.
std::vector<model::InLine> in_line_among(int directory, std::uint64_t number, const model::SlotSet& units, std::size_t most,
                                         const std::function<bool(uid_t)>& of);

}  // namespace thole::host
