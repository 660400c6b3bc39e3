#include "host/claims/own_tmpfs.hpp"

#include <dirent.h>
#include <sys/mount.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

#include "base/fd.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"

namespace thole::host {
namespace {

// The same in packaging/run-thole.mount.
constexpr const char* size_of_it = "size=4m,nr_inodes=8k,mode=0755";

bool in_the_namespace_of_pid_1() {
  struct stat mine, first;
  return ::stat("/proc/self/ns/mnt", &mine) == 0 && ::stat("/proc/1/ns/mnt", &first) == 0 && mine.st_ino == first.st_ino &&
         mine.st_dev == first.st_dev;
}

bool has_its_own(const std::string& directory) {
  struct stat here, above;
  if (::stat(directory.c_str(), &here) != 0 || ::stat((directory + "/..").c_str(), &above) != 0)
    return refuse_unseen(directory, errno), false;
  return here.st_dev != above.st_dev;
}

bool has_locks(const std::string& directory) {
  std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(directory.c_str()), &::closedir);
  if (!listing) refuse_unseen(directory, errno);
  while (const dirent* entry = listing ? ::readdir(listing.get()) : nullptr)
    if (std::string_view(entry->d_name).starts_with("gpu.")) return true;
  return false;
}

bool is_own_tmpfs(const std::string& directory) {
  struct statfs kind;
  return has_its_own(directory) && ::statfs(directory.c_str(), &kind) == 0 && kind.f_type == TMPFS_MAGIC;
}

// Where it cannot be (a kernel that does not know the option), what is there has to do.
void remount(const std::string& directory, const std::string& options) {
  struct statvfs now;
  if (::statvfs(directory.c_str(), &now) != 0) return;
  const unsigned long same = now.f_flag & (MS_NOSUID | MS_NODEV | MS_NOEXEC);
  (void)!::mount(nullptr, directory.c_str(), nullptr, MS_REMOUNT | same, options.c_str());
}

// How much root gets at once, and up to what size. Enough for the nodes of all slots, and for the shared files made anew; and
// where somebody fills that again and again, enough for the next node.
struct Growth {
  std::uint64_t room, most;
};
constexpr Growth files_at_once{4096, 1 << 16}, a_few_files{128, 1 << 20};
constexpr Growth bytes_at_once{1 << 20, 64 << 20}, a_few_bytes{64 << 10, 256 << 20};

// The size that gives root room; nothing where there is some, or it would be larger than anything.
std::optional<std::uint64_t> size_with_room(std::uint64_t used, std::uint64_t free, const Growth& usual, const Growth& last) {
  const Growth& growth = used < usual.most ? usual : last;
  return free < growth.room && used < growth.most ? std::optional(used + growth.room) : std::nullopt;
}

}  // namespace

bool is_alone_in_its_file_system(const std::string& directory) {
  if (!is_own_tmpfs(directory)) return false;
  const std::string mounts = read_file("/proc/self/mountinfo").value_or("");
  bool alone = false;   // the last one lies on top
  for (std::string_view line : split_lines(mounts)) {
    const auto words = split(line, ' ');
    if (words.size() > 4 && words[4] == directory) alone = words[3] == "/";
  }
  return alone;
}

void never_use_a_number_again(const std::string& directory) {
  if (is_own_tmpfs(directory)) remount(directory, "inode64");
}

void make_room_for_root(const std::string& directory) {
  struct statvfs space;
  if (!is_own_tmpfs(directory) || ::statvfs(directory.c_str(), &space) != 0 || space.f_files == 0) return;
  const std::uint64_t files = space.f_files - space.f_ffree, bytes = (space.f_blocks - space.f_bfree) * space.f_frsize;
  std::string options;
  if (const auto more = size_with_room(files, space.f_ffree, files_at_once, a_few_files))
    options += fmt::format(",nr_inodes={}", *more);
  if (const auto more = size_with_room(bytes, space.f_bfree * space.f_frsize, bytes_at_once, a_few_bytes))
    options += fmt::format(",size={}", *more);
  if (!options.empty()) remount(directory, options.substr(1));
}

std::string way_to_room(const std::string& directory) {
  if (!is_own_tmpfs(directory)) return "free some space there";
  return "end what fills it (sudo thole init names it), or: sudo mount -o remount,size=1g,nr_inodes=4m " + directory;
}

std::string mount_own_tmpfs(const std::string& directory) {
  if (has_its_own(directory) || !in_the_namespace_of_pid_1()) return "";
  const bool in_use = has_locks(directory);
  if (!in_use && ::mount("thole", directory.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, size_of_it) == 0) return "";
  const std::string why = in_use ? "its locks are there already; at the machine's next start it does" : std::strerror(errno);
  return directory + " gets no file system of its own (" + why + "): its records can fill the one it lies on";
}

}  // namespace thole::host
