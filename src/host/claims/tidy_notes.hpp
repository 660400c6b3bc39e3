// What `thole init` does about strangers' files in notes/, which would otherwise fill the directory for ever.
#pragma once

#include <sys/types.h>

#include <optional>

namespace thole::host {

// Deletes what can be no note: other things than files, names that say another user, what is longer than a notes file gets, more
// files of one user than anybody reads; with a group, the files of those who are not its members (a note is believed of
// whoever could write it, and who has the file open can still write it).
void tidy_notes(int notes, std::optional<gid_t> group);

}  // namespace thole::host
