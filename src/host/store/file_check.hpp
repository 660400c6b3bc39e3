// Would the queue's file be refused by whoever opens it? Asked without opening it as they do: nothing is made and nothing
// changed.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace thole::host {

// There is a file, and not just an empty one. Throws Error(unavailable) where that cannot be seen: a queue that could not be
// looked at is none that one could begin anew.
bool has_content(const std::string& path);

// What has become of SQLite's log of the file and of its index, as far as somebody uses them. (Where nobody does it is as after
// a power cut, and SQLite reads the log anew.) Certain only where nobody writes meanwhile; asked by who has no connection to
// the file open, whose locks would go with ours.
struct LogLook {
  // It was removed while its index or who has it open knows of it; or it is not what its index says: shorter, or longer again
  // with a hole in it, for who has it open goes on to write where he was. What is there is told by `lost_log`.
  bool log_is_lost = false;
  // Not the one that its index is of, as where an older one was moved into its place; or so much of it was cut off that the
  // file is newer than what is left.
  bool log_is_anothers = false;
  // Its index does not find all that it says is there: somebody has cut that, and it was made as long again, with nothing in
  // that part. Nothing is lost by it: SQLite makes it again from the log.
  bool index_is_cut = false;

  bool is_sound() const { return !log_is_lost && !log_is_anothers && !index_is_cut; }
};
LogLook look_at_log(const std::string& path);

// Throws who keeps the index locked, if anybody does: whoever opens a queue that nobody has open puts it together first, and
// all others wait for that. Asked as the look at the log is.
void refuse_locked(const std::string& path);

// Throws where this open directory, which is to be a queue's, is not the user's alone.
void refuse_others(int directory, const std::string& name);

// Says, as long as this descriptor of the queue's directory is open, that somebody has the log of this file open: for where log
// and index are removed together.
void say_log_is_there(int directory, std::uint64_t file);

// Which file it is, of all that ever lay at this path: numbers of files are used again, times are not. 0: there is none. Throws
// where that cannot be seen.
std::uint64_t file_identity(const std::string& path);

// Where the index of a log is put that was lost, until the numbers of its jobs are passed over; and then, until that is told.
std::string lost_index(const std::string& path);
std::string untold_index(const std::string& path);
inline constexpr std::string_view lost_log = "somebody has removed or cut the queue's log, and what was only in that is lost";

// By a shared lock of this byte of queue.db-shm SQLite says that somebody uses it (UNIX_SHM_DMS in its os_unix.c).
inline constexpr off_t users_of_index = 128;

// Throws what they throw. Says nothing of a file that is not there, or empty: the first submit makes it.
void check_queue_file(const std::string& directory);

}  // namespace thole::host
