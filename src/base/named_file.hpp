// A file that somebody has named to be written to. In a sticky directory where others can write, such as /tmp, they can have
// put something in its place: a link to a file of his, a file that they own and read, a FIFO that nobody reads. Some kernels
// refuse those (fs.protected_symlinks, protected_regular, protected_fifos, protected_hardlinks), others do not; here they are
// refused always. In one that is not sticky, a project's say, files are everybody's who can write there. What was looked at is
// what is opened, whatever has its name a moment later.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/fd.hpp"

namespace thole {

struct NamedFile {
  std::string name;        // as it was typed
  Fd folder;               // where it lies, all links followed
  std::string last;        // its name there
  Fd there;                // what has that name, without access; empty: nothing yet
  struct stat about {};    // what is there
  int descriptor = -1;     // one of this process that the name means (/dev/stdout, /dev/fd/5); -1: none

  // By which what was looked at is opened; "" where nothing is there yet.
  std::string way() const;
  // By which another is put in its place.
  std::string place() const;
};

// Throws Error(unavailable) of `failure` ("cannot write") where nothing can be, and of what others can have put there.
NamedFile find_named_file(const std::string& name, const char* failure);

// Those that we have opened ourselves are no target, whatever number was guessed. False with errno set.
bool is_given_to_write(int descriptor);

// To write at its end, as a shell's >> does; made under the umask where nothing is there yet. Empty with errno: EEXIST where
// something is there by now.
enum class Appending { to_all, emptied, at_once };   // emptied first, as by >; not waiting for who reads a pipe
Fd open_to_append(const NamedFile& file, Appending how);

}  // namespace thole
