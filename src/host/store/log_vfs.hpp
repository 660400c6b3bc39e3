// SQLite's way to files, but for these: the log of a queue that is there already is opened and not made; nobody writes behind
// its end (somebody has cut it: the hole would be read as what it was); all of it is brought home or nothing; a full disk that
// has no room for the index of the log is an error and no SIGBUS; and a path through a directory that is open
// (base/open_directory.hpp) is kept as it is.
//
// Why. A connection that may have made its log syncs the directory along with its first commit, in SQLite's `os_unix.c`
// whenever the log is opened with leave to make it. `thole submit` is one connection and one commit: it paid for two syncs each
// time. JobDatabase makes the log before, and syncs the directory at once.
#pragma once

namespace thole::host {

// The name to open a queue's file by.
const char* log_vfs();

}  // namespace thole::host
