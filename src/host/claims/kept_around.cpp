// What this process runs inside, by the locks alone: for who cannot claim within it, as it is another's, or nothing names it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "host/claims/fifo_store.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

// A program's own claims are closed by execve: what is not was there before it, and it does not know of it.
bool is_inherited(pid_t pid, const char* fd) {
  const std::string info = read_file(fmt::format("/proc/{}/fdinfo/{}", pid, fd)).value_or("");
  for (std::string_view line : split_lines(info))
    if (line.starts_with("flags:")) {
      line.remove_prefix(std::min(line.find_first_not_of(" \t", sizeof "flags:" - 1), line.size()));
      unsigned flags = O_CLOEXEC;
      std::from_chars(line.data(), line.data() + line.size(), flags, 8);
      return (flags & O_CLOEXEC) == 0;
    }
  return false;
}

// A supervisor, a lane or a map: it lets go of no claim before what it has started in that has ended.
bool is_thole(pid_t pid) {
  const auto process = read_process(pid);
  return process && (process->name == "thole" || process->name.starts_with("thole-"));
}

struct Locked {
  std::pair<dev_t, ino_t> file;
  bool to_the_end;                     // it is not let go while what that process has started runs
};

// Adds the FIFOs that a process has locked; nothing where its descriptors are not ours to see.
void add_locked_by(pid_t pid, bool exclusively, std::vector<Locked>& locked) {
  const bool me = pid == ::getpid(), thole = !me && is_thole(pid);
  for_each_open_file(pid, [&](const OpenFile& open) {
    if (!S_ISFIFO(open.mode) || !has_flock(pid, open.fd, exclusively)) return;
    const bool inherited = is_inherited(pid, open.fd);
    if (!me || inherited) locked.push_back({{open.device, open.inode}, inherited || thole});
  });
}

}  // namespace

std::vector<port::KeptAround> FifoStore::kept_around(const std::vector<std::string>& keys, bool shared) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  nodes_->refresh_slots();
  std::vector<Locked> around;
  add_locked_by(::getpid(), shared, around);
  for (const pid_t pid : started_by()) add_locked_by(pid, shared, around);
  std::vector<port::KeptAround> kept;
  for (const std::string& key : keys) {
    const auto slot = nodes_->slot_of(key);
    struct stat node;
    const Fd lock_of_unit = slot ? nodes_->open_gpu(*slot, O_PATH) : Fd();
    if (!lock_of_unit || ::fstat(lock_of_unit.get(), &node) != 0) continue;
    const std::pair file(node.st_dev, node.st_ino);
    const auto is_it = [&](const Locked& locked) { return locked.file == file; };
    const auto stays = [&](const Locked& locked) { return is_it(locked) && locked.to_the_end; };
    if (std::ranges::any_of(around, is_it)) kept.push_back({key, std::ranges::any_of(around, stays)});
  }
  return kept;
}

}  // namespace thole::host
