// Directories and files that thole makes for itself. The umask takes bits from all that a process makes, its owner's too (0177,
// 0777): then who has made a directory cannot look into it, nor can any later command. A library may not change the umask even
// for a moment, since it is that of all threads. So what is made under such a umask gets its bits under another name first: no
// other process finds it without them.
//
// For group and others the umask stands. What a user names (the log of a map) is made as he would; his output is not made here.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.hpp"

namespace thole {

// mkdirat(2), mkfifoat(2); false with errno set.
bool make_directory_at(int dir_fd, const char* name, mode_t mode);
bool make_fifo_at(int dir_fd, const char* name, mode_t mode);
bool make_directory(const std::string& path, mode_t mode);

// The directory and those above it that are missing. True where it is there afterwards.
bool make_directories(const std::string& path, mode_t mode);

// open_at with O_CREAT.
Fd create_at(int dir_fd, const char* name, int flags, mode_t mode);

// For what is made in another way (bind(2), mkdtemp(3)), afterwards. Links are not followed. False with errno set.
bool give_owners_bits(int dir_fd, const char* name, mode_t mode);

// Of a file that is empty yet. On btrfs, what is written into it takes no room then that it has not got already; other file
// systems do so by themselves, or refuse this.
void write_in_place(const Fd& file);

// A new file that a user has named: as his shell makes it, under his umask. Empty on failure (errno is set).
Fd create_as_named(int dir_fd, const char* name, int flags);

// As this process began: a umask that has changed since costs a moment in which others may find a thing without its bits.
bool umask_takes_owners_bits();

// What a file of this mode gets whose mode is set by fchmod(2), as if open(2) had made it; its owner's bits stand.
mode_t left_by_umask(mode_t mode);

}  // namespace thole
