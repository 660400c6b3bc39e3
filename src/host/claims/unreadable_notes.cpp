#include "host/claims/unreadable_notes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "base/byte_range.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "host/claims/allowance.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/own_files.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"
#include "host/user_name.hpp"

namespace thole::host {
namespace {

// On the files of one user, and of all.
constexpr std::chrono::milliseconds to_find_read_locks{3}, to_find_all{50};

// The process that has set some read lock there, as the kernel tells it: -1 where an open file has it. It tells any lock to who
// asks to write: so what is left on both sides of a write lock is asked for again.
std::optional<pid_t> read_locked(int fd, Allowance& allowance) {
  std::vector<std::pair<off_t, off_t>> ranges{{0, std::numeric_limits<off_t>::max()}};
  while (!ranges.empty() && !allowance.over()) {
    const auto [from, to] = ranges.back();
    ranges.pop_back();
    struct flock found = byte_range(F_WRLCK, from, to - from);
    if (from >= to || ::fcntl(fd, F_OFD_GETLK, &found) != 0 || found.l_type == F_UNLCK) continue;
    if (found.l_type == F_RDLCK) return found.l_pid;
    ranges.emplace_back(from, found.l_start);
    if (found.l_len != 0) ranges.emplace_back(found.l_start + found.l_len, to);
  }
  return std::nullopt;
}

bool keeps_read_lock(pid_t pid, const std::set<FileNumber>& files, Allowance& allowance) {
  bool found = false;
  for_each_open_file(pid, [&](const OpenFile& open) {
    if (!files.contains({open.device, open.inode})) return;
    const std::string info = about_descriptor(pid, open.fd).value_or("");
    found = std::ranges::any_of(split_lines(info), [](std::string_view line) {
      return line.starts_with("lock:") && line.find(" READ ") != std::string_view::npos;
    });
  }, [&] { return found || allowance.over(); });
  return found;
}

struct ReadLocks {
  std::set<FileNumber> files;            // they lie on
  std::optional<uid_t> of_a_process;     // who has one of them, by the kernel's word and his own descriptors
};

// Who has set one may have ended, and have left it to another that shares his descriptors: his number is anybody's.
ReadLocks read_locks_on(int notes, uid_t uid, const std::vector<std::string>& names) {
  ReadLocks locks;
  Allowance allowance(to_find_read_locks);
  for (const std::string& name : names) {
    const Fd fd = open_at(notes, name.c_str(), only_look);
    struct stat file;
    if (!fd || ::fstat(fd.get(), &file) != 0 || !is_file_of(file, uid)) continue;
    const std::optional<pid_t> pid = read_locked(fd.get(), allowance);
    const FileNumber number{file.st_dev, file.st_ino};
    if (pid) locks.files.insert(number);
    if (pid && *pid > 0 && !locks.of_a_process && keeps_read_lock(*pid, {number}, allowance))
      locks.of_a_process = taker_among({*pid}).uid;
    if (allowance.over()) break;
  }
  return locks;
}

std::optional<uid_t> locker_by_descriptors(const std::set<FileNumber>& files) {
  Allowance allowance(to_name_holders);
  for (pid_t pid : all_pids()) {
    if (allowance.over()) break;
    if (keeps_read_lock(pid, files, allowance)) return taker_among({pid}).uid;
  }
  return std::nullopt;
}

std::string users_in_words(const std::set<uid_t>& users) {
  const std::string more = users.size() < 2 ? "" : fmt::format(" and {} more", users.size() - 1);
  return user_name(*users.begin()) + more;
}

}  // namespace

UnreadableNotes why_unreadable(int notes, const std::set<uid_t>& suspects) {
  UnreadableNotes found;
  if (suspects.empty()) return found;
  std::set<FileNumber> of_open_files;
  auto files = names_by_owner(notes, Saying::claims, [&](uid_t uid) { return suspects.contains(uid); });
  Allowance all(to_find_all);
  for (uid_t uid : suspects) {
    if (all.over()) break;   // some are told
    const ReadLocks locks = read_locks_on(notes, uid, files[uid]);
    if (locks.files.empty() || locks.of_a_process == uid) {
      found.own.insert(uid);
      continue;
    }
    found.locked.insert(uid);
    if (locks.of_a_process) found.lockers.insert(*locks.of_a_process);
    else of_open_files.insert(locks.files.begin(), locks.files.end());
  }
  if (of_open_files.empty()) return found;
  if (const auto locker = locker_by_descriptors(of_open_files)) found.lockers.insert(*locker);
  else found.by_somebody = true;
  return found;
}

std::vector<std::string> UnreadableNotes::cautions() const {
  std::vector<std::string> told;
  if (!own.empty())
    told.push_back(fmt::format("user {} {} notes that cannot be read, so shared GPUs count as full for others; sudo thole init "
                               "deletes what is no note", users_in_words(own), own.size() < 2 ? "has" : "have"));
  const bool root_is_told = by_somebody && ::geteuid() != 0;
  if (!locked.empty())
    told.push_back(fmt::format("{} keeps read locks on notes of user {}, which so cannot all be read, and shared GPUs count as "
                               "full for others{}", lockers.empty() ? "somebody" : "user " + users_in_words(lockers),
                               users_in_words(locked), root_is_told ? "; root is told who: sudo thole doctor" : ""));
  return told;
}

}  // namespace thole::host
