// The locks of a claim around: this process has them from whoever started it, or they are copied from a process that has them.
//
// Python hands no descriptors to what it starts, and no keeper may be there to be asked: then they are copied from who has
// started this process, at whatever distance, or from who took them, by pidfd_getfd. The kernel allows that by the rules for
// debuggers: under Yama (kernel.yama.ptrace_scope=1, of Debian and Ubuntu) a child may not, unless its parent says so.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/fd.hpp"
#include "base/standard.hpp"
#include "host/claims/fifo_store.hpp"
#include "host/claims/guard.hpp"
#include "host/claims/inner.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

namespace thole::host {
namespace {

constexpr std::chrono::milliseconds to_look_at_one{1'000};

// Unknown where its descriptors are not ours to see, or too many.
std::optional<bool> keeps_all(pid_t pid, const std::vector<Fd>& nodes) {
  Allowance allowance(to_look_at_one);
  const Stop stop = [&] { return allowance.over(); };
  for (const Fd& node : nodes)
    if (const std::optional<bool> keeps = keeps_lock(pid, node.get(), stop); !keeps.value_or(false)) return keeps;
  return !nodes.empty();
}

// Is this the process that a note names?
bool is_of(const Note& note, pid_t pid, std::uint32_t our_namespace) {
  const auto process = process_state(pid);
  if (!process || is_ended_state(process->state) || !is_same_start(process->start, note.process.start)) return false;
  return is_numbered_here(note, our_namespace) ? static_cast<std::uint32_t>(pid) == note.process.pid
                                               : process->uid == note.process.uid;
}

// Would the claim's own process be among those that we are shown? All are in the first pid namespace.
bool would_be_seen(const Note& note, std::uint32_t our_namespace) {
  return is_numbered_here(note, our_namespace) || our_namespace == first_pid_namespace;
}

// The claim's own process, here; 0 where there is none.
pid_t taker_by(const Note& note, std::uint32_t our_namespace) {
  const bool by_number = is_numbered_here(note, our_namespace);
  const auto candidates = by_number ? std::vector<pid_t>{static_cast<pid_t>(note.process.pid)} : all_pids();
  for (const pid_t pid : candidates)
    if (is_of(note, pid, our_namespace)) return pid;
  return 0;
}

bool is_same(const struct stat& file, const OpenFile& open) {
  return file.st_ino == open.inode && file.st_dev == open.device;
}

struct FileOfPid {
  std::string fd;
  std::uint64_t device, inode;
};

// A lock of a claim, or the guard of the directory that it is in.
bool keeps_any(pid_t pid, const char* fd, mode_t mode, const Guard& guard) {
  return has_flock(pid, fd) || (S_ISDIR(mode) && keeps_guard(pid, fd, guard));
}

// Checked once it is ours: meanwhile the number may have become another file's. One's own are copied without asking the kernel
// for another's, which it may refuse (containers' seccomp rules). `guard_or_lock`: it has to keep this one, or a lock.
Fd copy_of(pid_t pid, int process, const FileOfPid& file, const Guard* guard_or_lock) {
  const int number = std::atoi(file.fd.c_str());
  Fd fd(pid == ::getpid() ? ::fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
                          : above_standard(static_cast<int>(::syscall(SYS_pidfd_getfd, process, number, 0))));
  struct stat copied;
  if (!fd || ::fstat(fd.get(), &copied) != 0 || copied.st_ino != file.inode || copied.st_dev != file.device) return Fd();
  if (!guard_or_lock) return fd;
  return keeps_any(::getpid(), std::to_string(fd.get()).c_str(), copied.st_mode, *guard_or_lock) ? std::move(fd) : Fd();
}

}  // namespace

// What a claim of ours has locked itself and root has not taken back; where all of it was, what lies there now. Of a shared
// unit its own berth, for every sharer has the lock of the unit.
std::vector<Fd> FifoStore::lock_nodes(const std::vector<Note>& notes) {
  std::vector<Fd> kept, others;
  for (const Note& note : notes) {
    std::array<Fd, model::max_slots> units;
    const std::vector<unsigned> exchanged = note.exchanged(open_units(note, units));
    for (unsigned slot = 0; slot < model::max_slots; ++slot) {
      if (!note.names(slot)) continue;
      const unsigned berth = note.berths[slot] - 1;   // 0: exclusively
      std::vector<Fd>& nodes = std::ranges::find(exchanged, slot) == exchanged.end() ? kept : others;
      nodes.push_back(std::move(units[slot]));
      if (berth > 0) nodes.push_back(nodes_->open_share(slot, berth - 1, O_PATH));
    }
  }
  return kept.empty() ? std::move(others) : std::move(kept);
}

port::ClaimLocks FifoStore::own_locks(const std::string& id) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  const std::vector<Fd> nodes = lock_nodes(own_notes(id));
  if (!keeps_all(::getpid(), nodes).value_or(false)) return {};
  return copy_locks_of(::getpid(), id, nodes);
}

port::ClaimLocks FifoStore::copy_locks_of(pid_t pid, const std::string& id, const std::vector<Fd>& nodes) {
  const Fd process = open_pidfd(pid);   // before its descriptors are read: they are those of this process
  std::vector<FileOfPid> locks, notes;
  std::vector<std::pair<struct stat, bool>> wanted;   // and those of which one was found
  for (const Fd& node : nodes)
    if (struct stat file; ::fstat(node.get(), &file) == 0) wanted.emplace_back(file, false);
  for (const char* own : {".", ".."})   // the directory's own locks
    if (struct stat file; ::fstatat(nodes_->state().fd.get(), own, &file, 0) == 0) wanted.emplace_back(file, false);
  const Guard guard = guard_of(nodes_->state().path);
  const Fd own = find_own_directory_of(options_, id);
  std::optional<std::set<std::pair<dev_t, ino_t>>> for_notes;
  for_each_open_file(pid, [&](const OpenFile& open) {
    const FileOfPid file{open.fd, open.device, open.inode};
    for (auto& [about, found] : wanted) {
      if (found || !is_same(about, open) || !keeps_any(pid, open.fd, open.mode, guard)) continue;
      found = true;
      locks.push_back(file);
    }
    const bool perhaps = S_ISREG(open.mode) && open.uid == me_.uid;
    if (perhaps && !for_notes) {                     // once: strangers can make the list of names long
      for_notes.emplace();
      for (const int in : {notes_.get(), own.get()})
        if (in >= 0) for_notes->merge(files_for_notes(in, me_.uid));
    }
    if (perhaps && for_notes->contains({open.device, open.inode})) notes.push_back(file);
  }, to_the_end);
  std::vector<Fd> copies;
  int highest = 2;   // of the standard ones
  for (const FileOfPid& file : locks) {
    Fd copy = copy_of(pid, process.get(), file, &guard);
    if (!copy) return {};
    highest = std::max(highest, copy.get());
    copies.push_back(std::move(copy));
  }
  for (const FileOfPid& file : notes) {
    const Fd copy = copy_of(pid, process.get(), file, nullptr);
    if (!copy || !keeps_note(copy.get(), id, nodes_->slots(), number_of(nodes_->state()))) continue;
    copies.emplace_back(::fcntl(copy.get(), F_DUPFD_CLOEXEC, highest + 1));   // notes.hpp: above all its other locks
    break;
  }
  return keeps_all(::getpid(), nodes).value_or(false) ? port::ClaimLocks(std::move(copies)) : port::ClaimLocks();
}

// Of who has started this process, at whatever distance; where those have ended, of the claim's own process. What else has
// inherited them is not asked: in a claim that only such processes keep nothing new begins from elsewhere.
port::InheritedLocks FifoStore::copy_locks(const std::string& id) {
  adopt_after_fork();
  std::lock_guard lock(threads_);
  port::InheritedLocks found;
  const std::vector<Note> notes = own_notes(id);
  const std::vector<Fd> nodes = lock_nodes(notes);
  found.ended = nodes.empty();
  if (found.ended) return found;
  const Note& note = notes.front();
  std::vector<pid_t> from = started_by();
  if (const pid_t taker = taker_by(note, me_.pid_namespace); taker > 0) from.push_back(taker);
  const auto keeps = [&](pid_t pid) {
    return keeps_all(pid, nodes).value_or(is_of(note, pid, me_.pid_namespace));
  };
  for (const pid_t pid : from) {
    if (!keeps(pid)) continue;
    hook("keeper seen");
    found.copies = copy_locks_of(pid, id, nodes);
    if (!found.copies.empty()) return found;
    if (!found.keeper && keeps(pid)) found.keeper = pid;   // or it has ended since it was seen
  }
  found.ended = !found.keeper && (would_be_seen(note, me_.pid_namespace) || own_notes(id).empty());
  return found;
}

}  // namespace thole::host
