// What is told where SQLite calls a queue's file damaged. It says so of a sound one too, after a read that the disk refused;
// and advice to set a file aside must be certain.
#pragma once

#include <sqlite3.h>

namespace thole::host {

// By a check with a connection of its own. False also where that could not be made.
bool is_damaged(const char* file);

// Reads both files of this connection to their ends, and has a second connection check them. Throws Error(unavailable).
[[noreturn]] void refuse_damaged(sqlite3* db, const char* file);

}  // namespace thole::host
