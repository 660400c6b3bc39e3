// Which file a name leads to. Only "there is no such file" says that something is not there: who could not look (for want of
// memory, of a disk that answers, of leave) knows nothing, and what is done to a file that is gone loses one that is not.
#pragma once

#include <sys/stat.h>

#include <string>
#include <vector>

namespace thole {

// Whether this errno says that there is none.
bool says_absent(int sys_errno);

// Whether it says nothing at all: a want of descriptors or memory, or a disk that does not answer. It passes.
bool says_nothing(int sys_errno);

// Throws Error(unavailable) for such an errno: nobody can tell what is there.
void refuse_unseen(const std::string& path, int sys_errno);
void refuse_unseen(int fd, int sys_errno);             // of what is open

// Whether something has that name; a link counts as itself. Throws Error(unavailable) where that cannot be seen.
bool is_there(const std::string& path);

// Whether a file that is open still has its name: somebody may have removed it, or put another in its place. True where that
// cannot be seen.
bool is_at(const std::string& path, int fd);

// On a FIFO that its owner has deleted or replaced for good: a lock of it is no claim. Of no meaning to the kernel there.
inline constexpr mode_t given_up = S_ISGID;

// On a FIFO that its owner is about to replace; of no meaning to the kernel there.
inline constexpr mode_t being_taken = S_ISUID;

// The path of an open FIFO of root's that he has given up; or that has no name any more, or was about to be replaced, where
// root has made another under that name. "" of any other descriptor. A user namespace that does not know root calls him
// nobody; who else is called so there could only have handed us what says the same of itself.
std::string given_up_fifo_of_root(int fd);

// Of all that this process has open.
std::vector<std::string> given_up_fifos_of_root();

// Whether two looks were at one and the same file.
inline bool is_one_file(const struct stat& a, const struct stat& b) { return a.st_ino == b.st_ino && a.st_dev == b.st_dev; }

}  // namespace thole
