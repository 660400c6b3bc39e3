#include "host/claims/own_files.hpp"

#include <unistd.h>

#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "base/byte_range.hpp"
#include "base/made.hpp"
#include "base/random.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/entries.hpp"
#include "host/user_namespace.hpp"

namespace thole::host {
namespace {

constexpr std::string_view end_of_name(Saying what) { return what == Saying::tickets ? "-line" : ""; }

Saying told_by(std::string_view name) {
  return name.ends_with(end_of_name(Saying::tickets)) ? Saying::tickets : Saying::claims;
}

}  // namespace

bool is_file_of(const struct stat& file, uid_t uid) {
  return S_ISREG(file.st_mode) && file.st_uid == uid && is_known_owner(uid) && (file.st_mode & 022) == 0;
}

std::vector<std::string> names_in(int directory, Saying what, std::size_t most) {
  std::vector<std::string> names;
  for_each_entry(directory, [&](const char* name) {
    if (name[0] != '.' && told_by(name) == what) names.emplace_back(name);
    return names.size() < most;
  });
  return names;
}

std::vector<std::string> names_of(int directory, uid_t uid, Saying what) {
  std::vector<std::string> names = names_in(directory, what);
  const std::string begin = std::to_string(uid) + "-";
  struct stat file;   // anybody can give his files names of another's
  std::erase_if(names, [&](const std::string& name) {
    if (!name.starts_with(begin)) return true;
    return ::fstatat(directory, name.c_str(), &file, AT_SYMLINK_NOFOLLOW) == 0 && file.st_uid != uid;
  });
  return names;
}

std::map<uid_t, std::vector<std::string>> names_by_owner(int directory, Saying what, const std::function<bool(uid_t)>& of) {
  std::map<uid_t, std::vector<std::string>> names;
  std::set<ino_t> known;                         // anybody may be able to link others' files
  struct stat file;
  for (std::string& name : names_in(directory, what)) {
    if (::fstatat(directory, name.c_str(), &file, AT_SYMLINK_NOFOLLOW) != 0 || !is_file_of(file, file.st_uid)) continue;
    if (file.st_size > 0 && of(file.st_uid) && known.insert(file.st_ino).second) names[file.st_uid].push_back(std::move(name));
  }
  return names;
}

bool lock(int fd, off_t byte) {
  struct flock wanted = byte_range(F_WRLCK, byte, 1);
  return ::fcntl(fd, F_OFD_SETLK, &wanted) == 0;
}

bool write_lock_in(int fd, off_t from, off_t to, struct flock& found) {
  found = byte_range(F_RDLCK, from, to - from);
  if (::fcntl(fd, F_OFD_GETLK, &found) != 0) return refuse_unseen(fd, errno), false;
  return found.l_type != F_UNLCK;
}

bool write_locked(int fd, off_t byte) {
  struct flock found;
  return write_lock_in(fd, byte, byte + 1, found);
}

Fd new_own_file(int directory, uid_t uid, Saying what, std::string& name,
                const std::function<Fd(const std::string&, Fd)>& fill) {
  for (unsigned tries = 0; tries < 8; ++tries) {
    const std::string made = fmt::format("{}-{:08x}{}", uid, static_cast<std::uint32_t>(random_bits()), end_of_name(what));
    Fd fd = create_at(directory, made.c_str(), to_write | O_EXCL, 0600);
    if (!fd && errno == EEXIST) continue;
    if (!fd) return Fd();
    Fd kept = fill(made, std::move(fd));
    if (kept && ::fchmod(kept.get(), open_to_readers) == 0) {
      name = made;
      return kept;
    }
    const int reason = errno == 0 ? EAGAIN : errno;
    ::unlinkat(directory, made.c_str(), 0);
    errno = reason;
    return Fd();
  }
  return Fd();
}

// A read lock is to be had beside those of others, but not beside a write lock. While it lies there no process of mine can say
// anything in the file, and one that does so after that sees that the file has no name any more.
void remove_idle(int directory, const std::vector<std::string>& names, const std::function<bool(int)>& is_mine) {
  for (const std::string& name : names) {
    const Fd fd = open_at(directory, name.c_str(), only_look);
    struct flock whole = byte_range(F_RDLCK, 0, 0);
    if (fd && is_mine(fd.get()) && ::fcntl(fd.get(), F_OFD_SETLK, &whole) == 0) ::unlinkat(directory, name.c_str(), 0);
  }
}

}  // namespace thole::host
