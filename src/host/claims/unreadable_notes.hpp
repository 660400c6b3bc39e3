// Whose doing is it that the notes of some users cannot all be read? Each user's own, but where read locks of another's lie on
// his files: anybody can set those. They keep the owner from saying anything more in these files, so that he needs a new one
// for each claim, and where they are thousands they keep readers from a file.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

namespace thole::host {

struct UnreadableNotes {
  std::set<uid_t> own;       // whose own doing it is
  std::set<uid_t> locked;    // on whose files another's read locks lie
  std::set<uid_t> lockers;   // who has set those: the kernel names him, or his descriptors do, to who may see them
  bool by_somebody = false;  // where neither does

  std::vector<std::string> cautions() const;   // may ask the network for names
};
UnreadableNotes why_unreadable(int notes, const std::set<uid_t>& suspects);   // NoteBook::suspects()

}  // namespace thole::host
