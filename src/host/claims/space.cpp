#include "host/claims/space.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "base/fd.hpp"
#include "base/text.hpp"

namespace thole::host {
namespace {

struct Use {
  std::uint64_t files = 0, bytes = 0;
};

void add_up(const std::string& path, std::map<uid_t, Use>& uses) {
  std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(path.c_str()), &::closedir);
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
    struct stat found;
    if (entry->d_name[0] == '.' || ::fstatat(::dirfd(listing.get()), entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    Use& use = uses[found.st_uid];
    ++use.files;
    use.bytes += static_cast<std::uint64_t>(found.st_blocks) * 512;
  }
}

}  // namespace

std::string nearly_full(const std::string& directory) {
  struct statvfs space;
  if (::statvfs(directory.c_str(), &space) != 0 || space.f_files == 0) return "";
  const bool no_files = space.f_ffree < space.f_files / 16, no_bytes = space.f_bfree < space.f_blocks / 16;
  if (!no_files && !no_bytes) return "";
  std::map<uid_t, Use> uses;
  add_up(directory, uses);
  add_up(directory + "/notes", uses);
  struct stat owner;
  if (::stat(directory.c_str(), &owner) == 0) uses.erase(owner.st_uid);   // its nodes; init keeps those to their size
  const auto most = std::max_element(uses.begin(), uses.end(), [&](const auto& a, const auto& b) {
    return no_files ? a.second.files < b.second.files : a.second.bytes < b.second.bytes;
  });
  std::string text = directory + " is nearly full, which costs sharing, names and order";
  if (most != uses.end())
    text += fmt::format("; user {} has most of it: {} files, {} KiB", most->first, most->second.files, most->second.bytes / 1024);
  return text + "; sudo thole init cuts back what does not belong there";
}

}  // namespace thole::host
