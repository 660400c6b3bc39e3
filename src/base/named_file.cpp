#include "base/named_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/random.hpp"
#include "base/text.hpp"

namespace thole {

namespace {

constexpr int most_links = 40;   // as the kernel's

std::string way_of(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

std::string real_path(const std::string& path) {
  char real[PATH_MAX];
  return ::realpath(path.c_str(), real) ? real : "";
}

// In /proc a link may lead to what has no name: a pipe, a socket, a file that was deleted.
bool stands_in_proc(const Fd& folder) {
  struct statfs about {};
  return ::fstatfs(folder.get(), &about) == 0 && about.f_type == PROC_SUPER_MAGIC;
}

// The number where the name is that of a descriptor of this process. Opened anew it would be written from its beginning, over
// what the command has written there.
int own_descriptor(const Fd& folder, const std::string& name) {
  const std::string real = real_path(way_of(folder.get()));
  if (real.empty() || (real != real_path("/proc/self/fd") && real != real_path("/proc/thread-self/fd"))) return -1;
  if (name.size() > 9 || name.find_first_not_of("0123456789") != std::string::npos) return -1;
  return std::atoi(name.c_str());
}

class Search {
 public:
  Search(const std::string& name, const char* failure) : failure_(failure), left_(name) {
    found_.name = name;
    begin();
  }

  NamedFile run() {
    if (left_.empty()) fail(ENOENT);
    while (!step()) {
    }
    return std::move(found_);
  }

 private:
  Fd& folder() { return found_.folder; }

  [[noreturn]] void fail(int reason) const {
    throw Error(ErrorCode::unavailable, failure_).about(found_.name).because(reason);
  }

  void begin() {
    folder() = open_at(AT_FDCWD, left_.starts_with('/') ? "/" : ".", O_PATH | O_DIRECTORY);
    if (!folder()) fail(errno);
  }

  // As the kernel has it where it does: neither one's own nor of whoever has the directory. A file with a second name can have
  // got this one from anybody.
  void refuse_anothers(const std::string& part, const Fd& there) const {
    struct stat around {};
    if (::fstat(found_.folder.get(), &around) != 0) fail(errno);
    const struct stat& about = found_.about;
    const bool of_others = (around.st_mode & S_ISVTX) && (around.st_mode & (S_IWOTH | S_IWGRP));
    const bool is_anothers = about.st_uid != ::geteuid() && about.st_uid != around.st_uid;
    if (!of_others || (!is_anothers && (!S_ISREG(about.st_mode) || has_no_name_but(part, there)))) return;
    const std::string where = real_path(way_of(found_.folder.get()));
    throw Error(ErrorCode::unavailable, failure_)
        .about(found_.name)
        .hint(fmt::format("others can write to {}, and one of them can have put {} there: name a file in a directory of "
                          "your own", printable(where), printable(part)));
  }

  // A second name may be taken away as soon as what it names is open, and is counted no more a moment before it has gone: a
  // name that was never there is looked for on the disk, and that waits until nothing in the directory is being changed.
  bool has_no_name_but(const std::string& part, const Fd& there) const {
    if (found_.about.st_nlink != 1) return false;
    struct stat none {};
    const std::string never = fmt::format(".thole-{:016x}", random_bits());
    (void)!::fstatat(found_.folder.get(), never.c_str(), &none, AT_SYMLINK_NOFOLLOW);
    const std::string around = read_link(way_of(found_.folder.get()));
    return read_link(way_of(there.get())) == (around == "/" ? around : around + "/") + part;   // else "…/log (deleted)"
  }

  void follow(const Fd& link) {
    char next[PATH_MAX];
    const ssize_t length = ::readlinkat(link.get(), "", next, sizeof next);
    if (length < 0) fail(errno);
    if (++links_ > most_links) fail(ELOOP);
    left_.insert(0, next, static_cast<std::size_t>(length));
    if (left_.starts_with('/')) begin();
  }

  // One part of the path. True where the file is found.
  bool step() {
    const std::size_t from = std::min(left_.find_first_not_of('/'), left_.size());
    const std::size_t to = std::min(left_.find('/', from), left_.size());
    const std::string part = from == to ? "." : left_.substr(from, to - from);
    left_.erase(0, to);
    const bool is_last = left_.empty(), in_proc = stands_in_proc(folder());
    if (is_last && in_proc && (found_.descriptor = own_descriptor(folder(), part)) >= 0) return true;
    const int flags = O_PATH | (in_proc ? 0 : O_NOFOLLOW);
    Fd there = open_at(folder().get(), part.c_str(), flags | (is_last ? 0 : O_DIRECTORY));   // a directory is mounted by that
    if (!there && !is_last && errno == ENOTDIR) there = open_at(folder().get(), part.c_str(), flags);
    if (!there && is_last && errno == ENOENT) return found_.last = part, true;
    if (!there || ::fstat(there.get(), &found_.about) != 0) fail(errno);
    if (S_ISLNK(found_.about.st_mode)) return refuse_anothers(part, there), follow(there), false;
    if (is_last == S_ISDIR(found_.about.st_mode)) fail(is_last ? EISDIR : ENOTDIR);
    if (!is_last) return folder() = std::move(there), false;
    if (!in_proc) refuse_anothers(part, there);
    found_.last = part;
    found_.there = std::move(there);
    return true;
  }

  const char* failure_;
  std::string left_;
  int links_ = 0;
  NamedFile found_;
};

}  // namespace

std::string NamedFile::way() const { return descriptor >= 0 ? way_of(descriptor) : there ? way_of(there.get()) : ""; }

std::string NamedFile::place() const { return way_of(folder.get()) + "/" + last; }

NamedFile find_named_file(const std::string& name, const char* failure) { return Search(name, failure).run(); }

bool is_given_to_write(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFD), access = ::fcntl(descriptor, F_GETFL);
  if (flags >= 0 && access >= 0 && !(flags & FD_CLOEXEC) && (access & O_ACCMODE) != O_RDONLY) return true;
  errno = EBADF;
  return false;
}

Fd open_to_append(const NamedFile& file, Appending how) {
  const int flags = O_WRONLY | O_APPEND | O_NOCTTY | (how == Appending::emptied ? O_TRUNC : 0) |
                    (how == Appending::at_once ? O_NONBLOCK : 0);
  if (file.there) return open_at(AT_FDCWD, file.way().c_str(), flags);
  if (file.descriptor < 0) return create_as_named(file.folder.get(), file.last.c_str(), flags);
  if (!is_given_to_write(file.descriptor)) return Fd();
  return Fd(::fcntl(file.descriptor, F_DUPFD_CLOEXEC, 3));
}

}  // namespace thole
