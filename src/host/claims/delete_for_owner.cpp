#include "host/claims/delete_for_owner.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <vector>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/entries.hpp"
#include "host/user_name.hpp"

namespace thole::host {

namespace {

constexpr unsigned most_directories = 1 << 16;   // while somebody keeps making new ones
constexpr gid_t nobodys = static_cast<gid_t>(-2);

// As long as this lives, and does, the kernel lets this thread do to files what that user may, with this group alone.
class ActingAs {
 public:
  ActingAs(uid_t user, gid_t group) {
    int count = ::getgroups(0, nullptr);
    groups_.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    count = ::getgroups(count, groups_.data());
    if (count < 0 || !set_groups({})) return;
    ::setfsgid(group);
    ::setfsuid(user);
    changed_ = true;
    does_ = ::setfsuid(static_cast<uid_t>(-1)) == static_cast<int>(user) &&
            ::setfsgid(static_cast<gid_t>(-1)) == static_cast<int>(group);
  }
  ActingAs(const ActingAs&) = delete;
  ActingAs& operator=(const ActingAs&) = delete;
  ~ActingAs() {
    if (!changed_) return;
    ::setfsuid(::geteuid());
    ::setfsgid(::getegid());
    (void)!set_groups(groups_);
  }

  bool does() const { return does_; }

 private:
  // Of this thread; the libc's would be of all.
  static bool set_groups(const std::vector<gid_t>& groups) {
    return ::syscall(SYS_setgroups, groups.size(), groups.data()) == 0;
  }

  std::vector<gid_t> groups_;
  bool changed_ = false, does_ = false;
};

// Its owner may have closed it to himself. By what was opened: a name may lead anywhere a moment later.
void open_to_its_owner(int directory, const std::string& name) {
  struct stat found;
  const Fd inner = open_at(directory, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW);
  if (inner && ::fstat(inner.get(), &found) == 0 && (found.st_mode & 0700) != 0700)
    (void)!::chmod(fmt::format("/proc/self/fd/{}", inner.get()).c_str(), 0700);
}

// A directory that is found in one of those in `top` comes up beside it, and comes later. Nothing is closed to root.
void empty(int top, Rights rights) {
  const auto open_to_us = [&](int directory, const std::string& name) {
    if (rights == Rights::of_the_owner) open_to_its_owner(directory, name);
  };
  std::vector<std::string> left = entries_in(top);
  for (unsigned moved = 0; !left.empty() && moved < most_directories;) {
    const std::string name = std::move(left.back());
    left.pop_back();
    if (::unlinkat(top, name.c_str(), 0) == 0) continue;
    open_to_us(top, name);
    if (Fd inner = open_at(top, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)) {
      for (const std::string& entry : entries_in(inner.get())) {
        if (::unlinkat(inner.get(), entry.c_str(), 0) == 0) continue;
        open_to_us(inner.get(), entry);
        std::string beside = fmt::format(".init-{}-{}", ::getpid(), moved++);
        if (::renameat(inner.get(), entry.c_str(), top, beside.c_str()) == 0) left.push_back(std::move(beside));
      }
    }
    ::unlinkat(top, name.c_str(), AT_REMOVEDIR);
  }
}

// Who besides its owner has something in this directory: " (alice, bob)".
std::string others_in(int directory, uid_t owner) {
  std::set<std::string> users;
  for (const std::string& name : entries_in(directory)) {
    struct stat found;
    if (::fstatat(directory, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 && found.st_uid != owner && users.size() < 3)
      users.insert(printable(user_name(found.st_uid), 32));
  }
  const std::vector<std::string> named(users.begin(), users.end());
  return named.empty() ? "" : fmt::format(" ({})", join(named, ", "));
}

std::string delete_as(uid_t owner, gid_t group, int directory, const std::string& name, bool is_directory) {
  Fd top;
  {
    const ActingAs acting(owner, group);   // which may be what lets users into `directory`
    if (!acting.does()) return "init cannot act as its user here";
    if (is_directory) open_to_its_owner(directory, name);
    if (is_directory) top = open_at(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  }
  if (top) {
    const ActingAs acting(owner, nobodys);
    if (acting.does()) empty(top.get(), Rights::of_the_owner);
  }
  {
    const ActingAs acting(owner, group);
    if (acting.does() && (::unlinkat(directory, name.c_str(), is_directory ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT))
      return "";
  }
  return top ? "in it is what belongs to others" + others_in(top.get(), owner) : "its user may not delete it";
}

}  // namespace

std::string delete_entry(int directory, const std::string& name, const struct stat& found, Rights rights) {
  const bool is_directory = S_ISDIR(found.st_mode);
  const bool others_could = is_directory ? (found.st_mode & 022) != 0 : !name.starts_with(std::to_string(found.st_uid) + "-");
  if (rights == Rights::of_the_owner && others_could) return "others may have put it there";
  if (rights == Rights::of_root || found.st_uid == ::geteuid()) {
    if (is_directory)
      if (Fd top = open_at(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW)) empty(top.get(), rights);
    const bool gone = ::unlinkat(directory, name.c_str(), is_directory ? AT_REMOVEDIR : 0) == 0 || errno == ENOENT;
    return gone ? "" : "it cannot be deleted";
  }
  struct stat in;
  if (::fstat(directory, &in) != 0) return "it cannot be deleted";
  return delete_as(found.st_uid, in.st_gid, directory, name, is_directory);
}

}  // namespace thole::host
