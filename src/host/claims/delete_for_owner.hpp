// Deletes what users have put into a directory of root's that anybody can write to.
//
// How this works. Who may write to a directory can move it, with all that others have in it, to any other folder of the same
// file system that he can write to. So root deletes nothing there that its owner could not delete: this thread acts as that
// owner (setfsuid: the kernel decides, and the owner cannot signal us), and only where nobody but the owner can have put it
// there; nor a single file whose name says that it is another user's. In a file system that has nothing else in it nobody can
// have moved anything: there root deletes by itself.
#pragma once

#include <sys/stat.h>

#include <string>

namespace thole::host {

enum class Rights { of_the_owner, of_root };

// Why this entry, which `found` describes, stays, for people; "" when it is gone. Directories of any depth.
std::string delete_entry(int directory, const std::string& name, const struct stat& found, Rights rights);

}  // namespace thole::host
