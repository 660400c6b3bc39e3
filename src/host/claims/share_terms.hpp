// What a sharer says of its share, locked on its berth: how much memory it takes, and whether users other than its own may sit
// beside it. By this others are let in or not. And on the unit's node: that this berth is taken.
//
// How this works. Who has a berth has its node locked (flock, exclusively), and by the same open file a read lock (OFD) of one
// range of its bytes, which are as good on a FIFO as on a file. Where it begins says which claim it is of and with whom that
// shares:
//
//   begin = (number_of_claim << 1 | with_any) << 32        length = memory in MiB, 2^31 at most
//
// The kernel keeps both locks as long as the claim lives, and nobody can take either away. Anybody can lock bytes beside them:
// but a berth with two ranges says nothing, and its unit is full; and what covers the whole range from elsewhere is longer than
// any that says something, from the same byte it says more memory. So what is said falsely, by whomever, lets nobody in. Where
// nothing is said (claims of versions before this) the unit is full too.
//
// By the open file that has the unit's node locked, a sharer keeps a read lock of the byte of its berth's number there: so a
// berth whose own node was deleted or replaced is missed, and the unit is full.
//
// A write lock of a stranger's keeps a sharer from saying anything, as his flock would keep him from the berth: who has such
// bytes keeps the berth.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thole::host {

// A part of it: two claims of one user's have the same in one of 2^30 cases.
std::uint64_t number_of_claim(std::string_view id);

struct ShareTerms {
  std::uint64_t claim = 0;               // its number
  bool with_any = false;                 // users
  std::uint64_t memory_mib = 0;
  bool operator==(const ShareTerms&) const = default;
};

// Of the berth that this descriptor (O_RDWR) has locked, for as long as it is open anywhere. False where another's lock is in
// the way.
bool say_terms(int berth, const ShareTerms& terms);

// What is said on a berth; unset where nothing is, or by more than one.
std::optional<ShareTerms> terms_on(int berth);

// The same of the unit's node, for the berths from 0 to share_berths.
bool say_taken(int unit, unsigned k);
bool is_said_taken(int unit, unsigned k);

// Does anybody lock bytes of a node?
bool says_anything(int node);

// Who locks bytes of this node and has no flock of it, in words. The kernel names nobody; root is told whose descriptors have
// them, and everybody his own. May ask the network for a name.
std::string describe_byte_locker(int node);

}  // namespace thole::host
