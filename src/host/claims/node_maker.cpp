#include "host/claims/node_maker.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "host/claims/layout.hpp"
#include "host/claims/own_tmpfs.hpp"

namespace thole::host {
namespace {

constexpr mode_t to_be_renewed = S_ISVTX;  // of no meaning to the kernel on a FIFO

bool look(int directory, const std::string& name, struct stat& found) {
  return ::fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace

void NodeMaker::failed(const char* what, const std::string& name) const {
  const int why = errno;
  throw Error(ErrorCode::unavailable, what).about(path_ + "/" + name).because(why).hint(
      why == ENOSPC ? way_to_room(path_) : "");
}

// Anybody may fill it while we work.
template <class Make>
bool NodeMaker::with_room(Make&& make) const {
  constexpr int most_tries = 100;
  bool made = make();
  for (int tries = 0; !made && errno == ENOSPC && tries < most_tries; ++tries) {
    make_room_for_root(path_);
    made = make();
  }
  return made;
}

// The umask has no say in the mode of shared nodes. The group first: with the mode first, the old group would get in.
void NodeMaker::allot(const std::string& name) const {
  if ((access_.group &&
       ::fchownat(directory_, name.c_str(), static_cast<uid_t>(-1), *access_.group, AT_SYMLINK_NOFOLLOW) != 0) ||
      ::fchmodat(directory_, name.c_str(), access_.mode, 0) != 0)
    failed("cannot set the access of", name);
}

void NodeMaker::make_fifo(const std::string& name) const {
  if (with_room([&] { return make_fifo_at(directory_, name.c_str(), 0600); })) allot(name);
  else if (errno != EEXIST) failed("cannot make", name);
}

Fd NodeMaker::make_file(const std::string& name, std::optional<mode_t> mode) const {
  Fd fd;
  with_room([&] { return static_cast<bool>(fd = create_at(directory_, name.c_str(), O_RDWR | O_EXCL | O_NOFOLLOW, 0600)); });
  if (!fd && errno == EEXIST) return open_at(directory_, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (!fd) failed("cannot make", name);
  if (!mode) allot(name);
  else if (::fchmod(fd.get(), *mode) != 0) failed("cannot set the access of", name);
  return fd;
}

void NodeMaker::name_finished(const std::string& name) const {
  if (::renameat(directory_, unfinished(name).c_str(), directory_, name.c_str()) != 0) failed("cannot rename", name);
}

bool NodeMaker::differs(const std::string& name) const {
  struct stat found;
  return look(directory_, name, found) &&
         ((found.st_mode & 07777) != access_.mode || (access_.group && found.st_gid != *access_.group));
}

bool NodeMaker::renew_fifo(const std::string& name) const {
  struct stat found;
  if (!look(directory_, name, found)) return make_fifo(name), true;
  if (!S_ISFIFO(found.st_mode)) {  // only the directory's owner can have put it there
    if (::unlinkat(directory_, name.c_str(), 0) != 0) failed("not a FIFO, and cannot be deleted", name);
    return make_fifo(name), true;
  }
  if (!differs(name)) return true;
  if ((access_.mode & 0006) == 0006) return allot(name), true;  // whoever has it open may open it still
  Fd lock = open_at(directory_, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK);
  if (!lock) failed("cannot open", name);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    allot(name);
    (void)!::fchmodat(directory_, name.c_str(), access_.mode | to_be_renewed, 0);
    return false;
  }
  replace_fifo(name);
  return true;
}

void NodeMaker::replace_fifo(const std::string& name) const {
  ::unlinkat(directory_, unfinished(name).c_str(), 0);
  make_fifo(unfinished(name));
  const Fd before = open_at(directory_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  name_finished(name);
  if (before) give_up(before.get());
}

void NodeMaker::mark(const std::string& name, bool marked) const {
  struct stat found;
  if (!look(directory_, name, found)) return;
  const mode_t mode = (found.st_mode & 07777 & ~being_taken) | (marked ? being_taken : 0);
  if (::fchmodat(directory_, name.c_str(), mode, 0) != 0) failed("cannot mark", name);
}

void NodeMaker::give_up(int nameless) {
  struct stat about;
  if (::fstat(nameless, &about) == 0) (void)!::fchmod(nameless, (about.st_mode & 0777) | given_up);
}

void NodeMaker::give_up(int lock, const std::string& name) const {
  ::unlinkat(directory_, name.c_str(), 0);       // first: nothing that is marked has a name
  give_up(lock);
}

}  // namespace thole::host
