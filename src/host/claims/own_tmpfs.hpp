// A file system of its own for /run/thole: what strangers write into the shared records then fills nothing else.
#pragma once

#include <string>

namespace thole::host {

// Mounts a small tmpfs on the directory, which exists, where this is safe and of use: it has no lock nodes yet (a mount over a
// held lock would make second owners), no file system of its own, and the mount will be seen by everybody (we are in the mount
// namespace of pid 1; that of a systemd service with ProtectSystem= is another). "" when it has one of its own in the end, or
// nothing is mounted from here; else why not, as a caution.
std::string mount_own_tmpfs(const std::string& directory);

// Is there nothing else in its file system, so that nobody can move anything into it from elsewhere?
bool is_alone_in_its_file_system(const std::string& directory);

// Makes a file system of the directory's own larger where strangers' files leave root no room for its nodes.
void make_room_for_root(const std::string& directory);

// What root can do where there is none all the same.
std::string way_to_room(const std::string& directory);

// Its inodes are numbered by 64 bits from now on, where the kernel can: with 32 a stranger comes round in hours to the number
// of a lock that was deleted, and with a lock of his own on its way in a socket would look like its holder.
void never_use_a_number_again(const std::string& directory);

}  // namespace thole::host
