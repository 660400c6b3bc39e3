// The descriptors that a claim's keeper hands to who runs a command inside of it: a keeper of another user could send anything.
//
// Only what the kernel says of the open files decides, and it is asked without asking their file systems, which may be a
// program of the keeper's.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <map>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "host/claims/fifo_store.hpp"
#include "host/claims/inner.hpp"
#include "host/process/open_files.hpp"

namespace thole::host {
namespace {

using FileName = std::pair<dev_t, ino_t>;

struct Opened {
  FileName name;
  mode_t mode = 0;
  uid_t uid = 0;
};

std::optional<Opened> opened(int fd) {
  struct statx about;
  if (fd < 0 || ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &about) != 0) return std::nullopt;
  return Opened{{makedev(about.stx_dev_major, about.stx_dev_minor), about.stx_ino}, about.stx_mode, about.stx_uid};
}

// What a claim of these units may have besides its note.
class Expected {
 public:
  Expected(const ClaimDirectory& nodes, const std::vector<std::string>& keys) {
    for (const std::string& key : keys) {
      const auto slot = nodes.slot_of(key);
      if (!slot) continue;
      if (const auto gpu = opened(nodes.open_gpu(*slot, O_RDONLY).get())) gpus_.emplace(gpu->name, key);
      for (unsigned berth = 0; berth < model::share_berths; ++berth)
        if (const auto share = opened(nodes.open_share(*slot, berth, O_RDONLY).get())) shares_.insert(share->name);
    }
    for (const char* own : {".", ".."})
      if (const auto directory = opened(open_at(nodes.state().fd.get(), own, O_PATH | O_DIRECTORY).get()))
        directories_.insert(directory->name);
  }

  bool has(const Opened& file) const {
    if (S_ISDIR(file.mode)) return directories_.contains(file.name);
    return S_ISFIFO(file.mode) && (gpus_.contains(file.name) || shares_.contains(file.name));
  }
  // The unit whose lock this is; "" where it is another one.
  std::string unit_of(const Opened& file) const {
    const auto gpu = gpus_.find(file.name);
    return gpu == gpus_.end() ? "" : gpu->second;
  }

 private:
  std::map<FileName, std::string> gpus_;
  std::set<FileName> shares_, directories_;
};

}  // namespace

void FifoStore::check(const std::string& id, const std::vector<std::string>& units, std::span<const Fd> handed, uid_t owner) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  nodes_->refresh_slots();
  const Expected expected(*nodes_, units);
  std::set<std::string> missing(units.begin(), units.end());
  const auto is_note = [&](const Opened& file) {
    if (!S_ISREG(file.mode) || file.uid != owner) return false;
    if (notes_ && is_noted_in(notes_.get(), owner, file.name.first, file.name.second)) return true;
    const Fd own = owner == me_.uid ? find_own_directory_of(options_, id) : Fd();
    return own && is_noted_in(own.get(), owner, file.name.first, file.name.second);
  };
  for (const Fd& fd : handed) {
    const auto file = opened(fd.get());
    if (const std::string was = given_up_fifo_of_root(fd.get()); !was.empty())
      throw Error(ErrorCode::unavailable, printable(was, 100) + " was taken back by root, or deleted, and made anew").about(id);
    if (!file || (!expected.has(*file) && !is_note(*file)))
      throw Error(ErrorCode::unavailable, "its keeper has sent a file that is no lock of this claim, or one that was deleted")
          .about(id);
    if (has_flock(::getpid(), std::to_string(fd.get()).c_str())) missing.erase(expected.unit_of(*file));
  }
  if (!missing.empty())
    throw Error(ErrorCode::unavailable, "its keeper has sent no lock of " + printable(*missing.begin(), 60)).about(id);
}

}  // namespace thole::host
