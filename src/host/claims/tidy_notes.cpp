#include "host/claims/tidy_notes.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.hpp"

namespace thole::host {
namespace {

constexpr unsigned most_files_of_a_user = 16;
constexpr off_t longest = 1 << 18;

bool is_member(uid_t uid, gid_t group) {
  if (uid == 0) return true;
  passwd entry{}, *found = nullptr;
  std::vector<char> buffer(1 << 16);
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || !found) return false;
  std::vector<gid_t> groups(1024);
  int count = static_cast<int>(groups.size());
  if (::getgrouplist(entry.pw_name, entry.pw_gid, groups.data(), &count) < 0) return true;   // in more than anybody can be told
  groups.resize(static_cast<std::size_t>(count));
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

}  // namespace

void tidy_notes(int notes, std::optional<gid_t> group) {
  Fd own = open_at(notes, ".", O_RDONLY | O_DIRECTORY);
  std::unique_ptr<DIR, int (*)(DIR*)> listing(own ? ::fdopendir(own.get()) : nullptr, &::closedir);
  if (!listing) return;
  own.release();
  std::map<uid_t, unsigned> files;
  std::map<uid_t, bool> members;
  std::vector<std::string> wrong;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string name = entry->d_name;
    struct stat found;
    if (name == "." || name == ".." || ::fstatat(notes, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    bool right = S_ISREG(found.st_mode) && name.starts_with(std::to_string(found.st_uid) + "-") && found.st_size <= longest &&
                 ++files[found.st_uid] <= most_files_of_a_user;
    if (right && group) {
      auto [member, unknown] = members.try_emplace(found.st_uid, true);
      if (unknown) member->second = is_member(found.st_uid, *group);
      right = member->second;
    }
    if (!right) wrong.push_back(name);
  }
  for (const std::string& name : wrong)
    if (::unlinkat(notes, name.c_str(), 0) != 0) ::unlinkat(notes, name.c_str(), AT_REMOVEDIR);  // one with something in it stays
}

}  // namespace thole::host
