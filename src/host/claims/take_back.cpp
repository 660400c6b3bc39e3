#include "host/claims/take_back.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/error.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "host/claims/announced.hpp"
#include "host/claims/layout.hpp"
#include "host/claims/membership.hpp"
#include "host/process/open_files.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

void pause_briefly() {
  const timespec time{0, 20'000'000};
  ::nanosleep(&time, nullptr);
}

FileNumber number_of_file(int node) {
  struct stat about {};
  return ::fstat(node, &about) == 0 ? FileNumber(about.st_dev, about.st_ino) : FileNumber();
}

constexpr int tries_of_a_lock = 5;

// Moves those nodes out that somebody keeps locked; the others are locked by us now.
std::map<std::string, Fd> those_that_stay_locked(std::map<std::string, Fd>& nodes) {
  std::map<std::string, Fd> locked;
  for (int tries = 0; tries < tries_of_a_lock; ++tries) {
    if (tries > 0 && !locked.empty()) pause_briefly();
    for (auto& [name, node] : nodes) {
      const bool is_free = !node || ::flock(node.get(), LOCK_EX | LOCK_NB) == 0;
      if (is_free) locked.erase(name);
      else if (tries == 0) locked.emplace(name, Fd());
    }
  }
  for (auto& [name, node] : locked) node = std::move(nodes.at(name));
  return locked;
}

Fd open_node(int directory, const std::string& name) {
  Fd node = open_at(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!node) refuse_unseen(name, errno);
  return node;
}

// "still run, and may use GPU-…: pid 12 (python3) of anna, pid 14 (sh) of anna; end them"
std::string still_run(const std::string& unit, const std::set<pid_t>& processes) {
  std::string named;
  std::size_t told = 0;
  for (pid_t pid : processes) {
    if (told == most_listed) break;
    const auto process = process_state(pid);
    if (!process || is_ended_state(process->state)) continue;
    named += (told++ == 0 ? "" : ", ") + describe_process(pid);
  }
  if (told == 0) return "";
  named += and_more(processes.size(), most_listed);
  return fmt::format("what had {} may use it still; end it: {}", unit, named);
}

}  // namespace

bool stays_locked(int fd) {
  for (int tries = 0; tries < tries_of_a_lock; ++tries) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return false;
    pause_briefly();
  }
  return true;
}

// Nobody interrupts while this lives: a node that stayed marked could be claimed by nobody.
class TakeBack::Uninterrupted {
 public:
  Uninterrupted() {
    sigset_t ends;
    ::sigemptyset(&ends);
    for (int number : {SIGINT, SIGTERM, SIGHUP, SIGTSTP}) ::sigaddset(&ends, number);
    ::pthread_sigmask(SIG_BLOCK, &ends, &before_);
  }
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;
  ~Uninterrupted() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

LocksBefore locks_before(const std::string& directory, std::chrono::nanoseconds limit) {
  LocksBefore before;
  before.ticks = ticks_now();
  const LockTable table = lock_table(limit);
  before.flocks = parse_kernel_locks(table.text);
  before.whole = table.read && table.whole;
  struct stat about {};
  const bool there = ::stat(directory.c_str(), &about) == 0;
  std::erase_if(before.flocks, [&](const KernelLock& lock) { return there && lock.dev != about.st_dev; });
  Allowance allowance(for_init_to_tell);
  const Stop stop = [&] { return allowance.over(); };
  for (const KernelLock& lock : before.flocks) {      // whom the kernel names may have ended, and his number be another's
    if (stop()) break;
    const auto process = read_process(lock.pid);
    if (!process || process->start_ticks > before.ticks) continue;
    const FileNumber file(lock.dev, lock.ino);
    const auto uid = kept_locks(lock.pid, {file}, stop).files.empty() ? std::nullopt : taker_among({lock.pid}).uid;
    if (uid) before.users.emplace(file, *uid);
  }
  return before;
}

TakeBack::TakeBack(int directory, const NodeMaker& maker, const std::vector<ToTakeBack>& units, const LocksBefore& before,
                   std::chrono::nanoseconds limit)
    : directory_(directory), maker_(maker), units_(units), before_(before) {
  if (units.empty()) return;
  whole_ = std::make_unique<Uninterrupted>();
  taking_ = announce(directory, maker_, taking_file);   // from here on marks count (layout.hpp)
  std::set<std::string> names, of_wholes;
  for (const auto& [unit, whole] : units) {
    std::ranges::copy(nodes_of(unit), std::inserter(names, names.end()));
    if (!whole.empty()) std::ranges::copy(nodes_of(whole), std::inserter(of_wholes, of_wholes.end()));
  }
  names.insert(of_wholes.begin(), of_wholes.end());
  for (const std::string& name : names) maker_.mark(name, true);
  for (const std::string& name : names) {
    Fd node = open_node(directory, name);
    if (node) numbers_.emplace(name, number_of_file(node.get()));
    nodes_.emplace(name, std::move(node));
  }
  locked_ = those_that_stay_locked(nodes_);
  for (const std::string& name : of_wholes) nodes_.erase(name);
  if (locked_.empty()) return;
  std::set<FileNumber> numbers;
  for (const auto& [name, node] : locked_) numbers.insert(numbers_.at(name));
  now_ = kernel_locks(limit);
  Allowance allowance(for_init_to_take);
  seen_ = keepers_by_descriptors(numbers, allowance);
}

TakeBack::~TakeBack() {
  for (const auto& [name, number] : numbers_) try {
      maker_.mark(name, false);                       // of what was spared, or not come to
    } catch (const Error&) {}                         // it says nothing without the lock of `taking`
  if (taking_) ::unlinkat(directory_, taking_file, 0);
}

const ToTakeBack* TakeBack::asked(const std::string& unit) const {
  const auto found = std::ranges::find(units_, unit, &ToTakeBack::unit);
  return found == units_.end() ? nullptr : &*found;
}

// What came of a unit that is taken back.
struct TakeBack::Taking {
  const ToTakeBack& asked;
  const How& how;
  std::vector<std::string>& said;
  std::set<uid_t> meant;                              // whose processes had it
  std::set<pid_t> had;
  bool any_taken = false, any_spared = false;
};

bool TakeBack::of(const ToTakeBack& asked, const How& how, std::vector<std::string>& said) {
  const auto& [unit, whole] = asked;
  Taking taking{asked, how, said, users_before(unit), {how.inside.begin(), how.inside.end()}};
  if (!how.lost.empty()) {
    said.push_back(fmt::format("{} is taken back; {} has its deleted lock", gpu_node(unit), how.lost));
    taking.any_taken = true;
  }
  if (!whole.empty()) {
    taking.meant.merge(users_before(whole));
    for (const std::string& name : nodes_of(whole))
      if (locked_.contains(name) && take(name, taking)) wholes_taken_.insert(whole);
  }
  for (const std::string& name : nodes_of(unit)) {
    if (locked_.contains(name)) take(name, taking);
    else maker_.replace_fifo(name);
  }
  if (const std::string rest = still_run(unit, taking.had); taking.any_taken && !rest.empty()) said.push_back(rest);
  const bool taken = taking.any_taken || wholes_taken_.contains(whole);
  if (!taken && !taking.any_spared) said.push_back(fmt::format("{} is not taken back: nobody held it", unit));
  return taken && !taking.any_spared;
}

// A node that somebody keeps locked. False: he is spared.
bool TakeBack::take(const std::string& name, Taking& taking) {
  const auto node = locked_.find(name);
  const std::string spared_is = taking.how.from_anybody ? "" : spared(name, taking.meant, taking.how.group);
  if (!spared_is.empty()) {
    maker_.mark(name, false);
    taking.said.push_back(
        fmt::format("{} is not taken back: {}{}; to take it all the same: sudo thole init --force --take-back {}", name,
                    spared_is, keepers_of(name), taking.asked.unit));
    taking.any_spared = true;
    return false;
  }
  const std::vector<pid_t>& seen = seen_[numbers_.at(name)];
  const std::string keeper =
      seen.empty() ? describe_keeper(node->second.get()) : describe_process(seen.front()) + " holds it";
  taking.said.push_back(fmt::format("{} is taken back; {}", name, keeper));
  taking.had.insert(seen.begin(), seen.end());
  maker_.replace_fifo(name);
  locked_.erase(node);
  taking.any_taken = true;
  return true;
}

std::vector<std::string> TakeBack::spared_of(const std::string& unit) const {
  std::vector<std::string> names;
  for (const std::string& name : nodes_of(unit))
    if (locked_.contains(name)) names.push_back(name);
  return names;
}

// Whom the kernel's list names may have ended, or have taken it for another.
std::string TakeBack::keepers_of(const std::string& name) const {
  const auto seen = seen_.find(numbers_.at(name));
  if (seen == seen_.end()) return "";
  std::vector<std::string> keepers;
  for (const pid_t pid : seen->second) keepers.push_back(describe_process(pid));
  return " (it is kept by " + join(some_of(std::move(keepers)), ", ") + ")";
}

// By the first list; whose process began since has that number from another.
bool TakeBack::had(pid_t pid, const FileNumber& node) const {
  const auto is_it = [&](const KernelLock& lock) { return lock.pid == pid && FileNumber(lock.dev, lock.ino) == node; };
  if (std::ranges::none_of(before_.flocks, is_it)) return false;
  const auto process = read_process(pid);
  return !process || process->start_ticks <= before_.ticks;
}

// Of the unit's nodes: who runs the processes that had them.
std::set<uid_t> TakeBack::users_before(const std::string& unit) const {
  std::set<uid_t> users;
  for (const std::string& name : nodes_of(unit)) {
    const auto node = numbers_.find(name);
    for (const auto& [file, user] : before_.users)
      if (node != numbers_.end() && file == node->second) users.insert(user);
  }
  return users;
}

// One of those who had it alone has it still: it was handed on, for two cannot have it.
bool TakeBack::has_it_still(const FileNumber& node, int fd) const {
  Allowance allowance(for_init_to_tell);
  return std::ranges::any_of(before_.flocks, [&](const KernelLock& lock) {
    return lock.exclusive && FileNumber(lock.dev, lock.ino) == node && had(lock.pid, node) &&
           keeps_lock(lock.pid, fd, [&] { return allowance.over(); }).value_or(false);
  });
}

// Who has got a node since, in words; empty: nobody has. A lock whose taker has ended is that of those who are seen to have it.
std::string TakeBack::spared(const std::string& name, const std::set<uid_t>& meant, std::optional<gid_t> group) const {
  const FileNumber node = numbers_.at(name);
  const auto seen = seen_.find(node);
  std::vector<pid_t> now = lockers_of(now_.flocks, locked_.at(name).get());
  if (now.empty() && !now_.whole && seen == seen_.end())
    return "who has it cannot be told" + (now_.crowd.empty() ? "" : ", " + now_.crowd);
  const auto says_who_has_it = [&](pid_t pid) { return user_ids_of(pid) || had(pid, node); };
  if (std::ranges::none_of(now, says_who_has_it) && seen != seen_.end()) now = seen->second;
  for (pid_t pid : now) {
    if (had(pid, node)) continue;
    const auto uid = taker_among({pid}).uid;
    if (!uid || meant.contains(*uid) || !has_account(*uid) || (group && !process_is_member(pid, *group))) continue;
    if (has_it_still(node, locked_.at(name).get())) continue;
    return describe_process(pid) +
           (before_.whole ? " has got it just now" : " may have got it just now, for the kernel's list of locks is too long");
  }
  return "";
}

}  // namespace thole::host
