// What a sharer says of its share, locked on its berth: how much memory it takes, and whether users other than its own may sit
// beside it. By this others are let in or not.
//
// How this works. Who has a berth has its node locked (flock, exclusively), and by the same open file a read lock (OFD) of a
// range of bytes of it, which are as good on a FIFO as on a file: byte 0 says "for my own user alone", and from byte 1 on each
// byte is one MiB. The kernel keeps both as long as the claim lives, and nobody can take either away or say less for another: a
// stranger's own locks there only add to what is said. So what is said falsely, by whomever, lets nobody in; at worst the unit
// counts as full. Where nothing is said the figure is unknown, and the unit full too (claims of versions before this).
//
// A write lock of a stranger's keeps a sharer from saying anything, as his flock would keep him from the berth: then he takes
// another berth.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace thole::host {

struct ShareTerms {
  bool with_any = false;                 // users
  std::uint64_t memory_mib = 0;
  bool operator==(const ShareTerms&) const = default;
};

// Of the berth that this descriptor (O_RDWR) has locked, for as long as it is open anywhere. False where another's lock is in
// the way.
bool say_terms(int berth, const ShareTerms& terms);

// What is said on a berth; unset where nothing is, or no figure.
std::optional<ShareTerms> terms_on(int berth);

// Does anybody lock bytes of it?
bool says_anything(int berth);

// Who keeps a berth from sharers, or says more there than its holder: by a flock of it (describe_keeper), or by bytes alone.
// For those the kernel names nobody; root is told whose descriptors have them, and everybody his own. May ask the network for
// a name.
std::string describe_berth_keeper(int berth);
std::string describe_byte_lockers(int berth);

}  // namespace thole::host
