// What `thole init` does about strangers' files in notes/, which would otherwise fill the directory for ever.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "host/claims/delete_for_owner.hpp"
#include "host/claims/layout.hpp"

namespace thole::host {

// What the notes are about.
struct NotesAbout {
  int directory = -1;          // of the nodes
  std::uint64_t number = 0;    // number_of(it)
  const SlotKeys& keys;
};

struct TidyWish {
  std::string path;                  // of notes/, for people
  std::optional<gid_t> group;        // only its members may claim
  Rights rights = Rights::of_the_owner;   // by which is deleted
  bool space_is_scarce = false;
};

// Deletes what can be no note: other things than files, with all that is in them, names that say another user, what is longer
// than a notes file gets, more files of one user than anybody reads; with a group, the files of those who are not its
// members (a note is believed of whoever could write it, and who has the file open can still write it); and what is kept for
// later claims, where it is longer than a page, or space is scarce. A file with a live note of a lock that its user holds stays
// in any case, one file a lock; so does one that says a ticket of its user's who waits. Tells what stays although it is no
// note.
std::vector<std::string> tidy_notes(int notes, const NotesAbout& about, const TidyWish& wish);

// The slots that are claimed: live notes speak of locks of them that their users hold, or notes that nobody can read may do so;
// or all slots of such claims, of whose locks some may be another's by now, by the notes that can be read.
enum class Counted { what_is_held, all_of_its_claim };
std::set<unsigned> claimed_slots(int notes, const NotesAbout& about, Counted counted);

}  // namespace thole::host
