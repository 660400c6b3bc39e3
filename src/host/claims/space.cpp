#include "host/claims/space.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

constexpr unsigned deepest = 32;
constexpr std::chrono::milliseconds to_find_deleted{500};

struct Use {
  std::uint64_t files = 0, bytes = 0;
};

using Listing = std::unique_ptr<DIR, int (*)(DIR*)>;

Listing list(int directory, const char* name) {
  Fd fd = open_at(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK);
  Listing listing(fd ? ::fdopendir(fd.get()) : nullptr, &::closedir);
  if (listing) fd.release();
  return listing;
}

void add_up(const Listing& listing, unsigned depth, std::map<uid_t, Use>& uses) {
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    struct stat found;
    const int in = ::dirfd(listing.get());
    if (name == "." || name == ".." || ::fstatat(in, entry->d_name, &found, AT_SYMLINK_NOFOLLOW) != 0) continue;
    Use& use = uses[found.st_uid];
    ++use.files;
    use.bytes += static_cast<std::uint64_t>(found.st_blocks) * 512;
    if (S_ISDIR(found.st_mode) && depth < deepest) add_up(list(in, entry->d_name), depth + 1, uses);
  }
}

// What a user's processes have open of what is deleted.
struct SpaceKeeper {
  pid_t pid = 0;                                 // which has most of it
  std::size_t most = 0, processes = 0;
  std::map<std::uint64_t, std::uint64_t> files;  // bytes by inode
  bool attributes = false;                       // which some of them have, and no number tells
};

constexpr std::size_t longest_list = 65536;      // of names that the kernel tells

bool is_of_users(std::string_view attribute) { return attribute.starts_with("user."); }

bool has_attributes_of_users(const std::string& path) {
  std::string names(longest_list, '\0');
  const ssize_t size = ::listxattr(path.c_str(), names.data(), names.size());
  if (size < 0) return errno == E2BIG;
  return std::ranges::any_of(split(std::string_view(names).substr(0, static_cast<std::size_t>(size)), '\0'), is_of_users);
}

std::string told(const Use& use) { return fmt::format("{} files, {} KiB", use.files, use.bytes / 1024); }

struct Lack {
  struct statvfs space {};
  bool files = false, bytes = false;
};

// What is used, by whose it is. What has no name that this user could see is nobody's.
class Filling {
 public:
  Filling(const std::string& directory, const Lack& lack)
      : by_files_(lack.files),
        unseen_{lack.space.f_files - lack.space.f_ffree, (lack.space.f_blocks - lack.space.f_bfree) * lack.space.f_frsize},
        half_(amount(unseen_) / 2) {
    add_up(list(AT_FDCWD, directory.c_str()), 0, uses_);
    for (const auto& [uid, use] : uses_) {
      unseen_.files -= std::min(unseen_.files, use.files);
      unseen_.bytes -= std::min(unseen_.bytes, use.bytes);
    }
  }

  const Use& unseen() const { return unseen_; }
  bool is_mostly_unseen() const { return amount(unseen_) > half_; }

  // Who has more than half of it; nothing: nobody has.
  std::optional<std::pair<uid_t, Use>> most() const {
    const auto less = [&](const auto& a, const auto& b) { return amount(a.second) < amount(b.second); };
    const auto most = std::max_element(uses_.begin(), uses_.end(), less);
    return most == uses_.end() || amount(most->second) <= half_ ? std::nullopt : std::optional(*most);
  }

 private:
  std::uint64_t amount(const Use& use) const { return by_files_ ? use.files : use.bytes; }

  bool by_files_;
  std::map<uid_t, Use> uses_;
  Use unseen_;
  std::uint64_t half_;
};

std::string whose(const std::string& directory, const Lack& lack) {
  const Filling filling(directory, lack);
  if (filling.is_mostly_unseen())
    return fmt::format("; most of it ({}) is deleted and still open (init names who has it so), attributes of files, or closed "
                       "to this user", told(filling.unseen()));
  const auto most = filling.most();
  if (!most) return "";
  struct stat owner;
  if (::stat(directory.c_str(), &owner) == 0 && owner.st_uid == most->first)
    return fmt::format("; somebody has written {} KiB to its shared files", most->second.bytes / 1024);
  return fmt::format("; user {} has most of it: {}", most->first, told(most->second));
}

Lack lack_of(const std::string& directory) {
  Lack lack;
  if (::statvfs(directory.c_str(), &lack.space) != 0 || lack.space.f_files == 0) return lack;
  lack.files = lack.space.f_ffree < lack.space.f_files / 16;
  lack.bytes = lack.space.f_bfree < lack.space.f_blocks / 16;
  return lack;
}

}  // namespace

bool is_nearly_full(const std::string& directory) {
  const Lack lack = lack_of(directory);
  return lack.files || lack.bytes;
}

std::string nearly_full(const std::string& directory) {
  const Lack lack = lack_of(directory);
  if (!lack.files && !lack.bytes) return "";
  return directory + " is nearly full, which costs sharing, names and order" + whose(directory, lack) +
         "; sudo thole init cuts back what does not belong there";
}

std::string filled_unseen(const std::string& directory) {
  const Lack lack = lack_of(directory);
  if (!lack.files && !lack.bytes) return "";
  const Filling filling(directory, lack);
  if (!filling.is_mostly_unseen()) return "";
  return fmt::format("{} is nearly full, and most of it ({}) has no name there: no process is seen to have it open, so that it "
                     "may be mapped, or on its way in a socket; it goes with those processes, or at a restart", directory,
                     told(filling.unseen()));
}

std::vector<std::string> open_though_deleted(std::uint64_t device, uid_t owner, std::uint64_t shared_file) {
  std::map<uid_t, SpaceKeeper> keepers;
  Allowance allowance(to_find_deleted);
  for (pid_t pid : all_pids()) {
    if (allowance.over()) break;
    const auto ids = user_ids_of(pid);
    if (!ids) continue;
    SpaceKeeper here;
    here.pid = pid;
    for_each_open_file_of_any_thread(pid, [&](pid_t thread, const OpenFile& open) {
      if (open.device != device || open.links != 0) return;
      const bool has_attributes = S_ISREG(open.mode) && has_attributes_of_users(fmt::format("/proc/{}/fd/{}", thread, open.fd));
      const bool renewed = open.uid == owner && open.bytes <= shared_file;   // who claimed before that has the old ones open
      if (!renewed || has_attributes) here.files[open.inode] = open.bytes;
      here.attributes = here.attributes || has_attributes;
    }, [&] { return allowance.over(); });
    if (here.files.empty()) continue;
    SpaceKeeper& keeper = keepers[ids->real];
    ++keeper.processes;
    keeper.attributes = keeper.attributes || here.attributes;
    if (here.files.size() > keeper.most) keeper.most = here.files.size(), keeper.pid = pid;
    keeper.files.merge(here.files);
  }
  std::vector<std::string> told_of;
  for (const auto& [uid, keeper] : keepers) {
    Use use{keeper.files.size(), 0};
    for (const auto& [inode, bytes] : keeper.files) use.bytes += bytes;
    if (use.files < 64 && use.bytes < 64 * 1024 && !keeper.attributes) continue;
    const std::size_t more = keeper.processes - 1;
    const std::string with = more == 0 ? "" : fmt::format(", with {} more of that user,", more);
    told_of.push_back(describe_process(keeper.pid) + with + " has deleted files of it open: " + told(use) +
                      (keeper.attributes ? ", and attributes" : ""));
  }
  return told_of;
}

bool clear_attributes(int fd, Allowance& allowance) {
  std::string names(longest_list, '\0');
  while (!allowance.over()) {
    const ssize_t size = ::flistxattr(fd, names.data(), names.size());
    if (size < 0) return errno == ENOTSUP;
    bool any = false, any_gone = false;
    for (const std::string_view name : split(std::string_view(names).substr(0, static_cast<std::size_t>(size)), '\0')) {
      if (!is_of_users(name)) continue;
      any = true;
      any_gone = ::fremovexattr(fd, std::string(name).c_str()) == 0 || any_gone;
    }
    if (!any || !any_gone) return !any;
  }
  return false;
}

}  // namespace thole::host
