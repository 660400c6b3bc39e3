#include "host/claims/take_back.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/byte_range.hpp"
#include "base/error.hpp"
#include "base/made.hpp"
#include "base/same_file.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
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

// Those whom the kernel names. Who took the lock may have ended, and his number be another's by now: who has no descriptor of
// it counts only where nobody is seen to have one.
std::vector<pid_t> who_took(const KernelLocks& locks, int node, const std::vector<pid_t>& holders) {
  std::vector<pid_t> lockers = lockers_of(locks.flocks, node);
  if (holders.empty()) return lockers;
  std::erase_if(lockers, [&](pid_t pid) { return std::ranges::find(holders, pid) == holders.end(); });
  return lockers.empty() ? holders : lockers;
}

// While it is locked, and it ends with this process, marks count (layout.hpp).
Fd begin_taking(int directory) {
  const std::string unfinished = std::string("new.") + taking_file;
  ::unlinkat(directory, unfinished.c_str(), 0);
  Fd file = create_at(directory, unfinished.c_str(), O_RDWR | O_EXCL | O_NOFOLLOW, 0600);
  struct flock wanted = byte_range(F_WRLCK, 0, 1);   // before anybody can open it: a reader's lock would be in the way
  if (!file || ::fcntl(file.get(), F_OFD_SETLK, &wanted) != 0 || ::fchmod(file.get(), 0644) != 0 ||
      ::renameat(directory, unfinished.c_str(), directory, taking_file) != 0)
    throw Error(ErrorCode::unavailable, "cannot tell others that a GPU is taken back").about(taking_file).because(errno);
  return file;
}

// Nobody interrupts while this lives: a node that stayed marked could be claimed by nobody.
class Uninterrupted {
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

std::vector<std::string> nodes_of(const std::string& unit) {
  std::vector<std::string> names{gpu_node(unit)};
  for (unsigned berth = 0; berth < model::share_berths; ++berth) names.push_back(share_node(unit, berth));
  return names;
}

bool stays_locked(int fd) {
  for (int tries = 0; tries < tries_of_a_lock; ++tries) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return false;
    pause_briefly();
  }
  return true;
}

TakeBack::TakeBack(int directory, const std::vector<std::string>& units, std::chrono::nanoseconds limit)
    : directory_(directory), units_(units), limit_(limit) {
  if (units.empty()) return;
  before_ = kernel_locks(limit_);
  std::map<std::string, Fd> nodes;
  for (const std::string& unit : units)
    for (const std::string& name : nodes_of(unit)) nodes.emplace(name, open_node(directory, name));
  const std::map<std::string, Fd> locked = those_that_stay_locked(nodes);
  std::set<FileNumber> numbers;
  for (const auto& [name, node] : locked) numbers.insert(number_of_file(node.get()));
  std::map<FileNumber, std::vector<pid_t>> seen = keepers_by_descriptors(numbers, to_look_);
  for (const auto& [name, node] : locked) {
    const std::vector<pid_t>& holders = seen[number_of_file(node.get())];
    const std::vector<pid_t> lockers = who_took(before_, node.get(), holders);
    Meant& meant = meant_[name];
    meant.processes.insert(lockers.begin(), lockers.end());
    meant.processes.insert(holders.begin(), holders.end());
    for (pid_t pid : meant.processes)
      if (const auto user = user_ids_of(pid)) meant.users.insert({user->real, user->effective});
  }
}

TakeBack::~TakeBack() {
  if (taking_) ::unlinkat(directory_, taking_file, 0);
}

bool TakeBack::is_asked(const std::string& unit) const { return std::ranges::find(units_, unit) != units_.end(); }

bool TakeBack::of(const std::string& unit, const How& how, std::vector<std::string>& said) {
  const Uninterrupted whole;
  bool taken = !how.lost.empty(), spared = false;
  if (taken) said.push_back(fmt::format("{} is taken back; {} has its deleted lock", gpu_node(unit), how.lost));
  std::set<pid_t> had(how.inside.begin(), how.inside.end());
  std::map<std::string, Fd> nodes, locked;
  for (const std::string& name : nodes_of(unit)) nodes.emplace(name, open_node(directory_, name));
  locked = those_that_stay_locked(nodes);
  for (const auto& [name, node] : nodes)
    if (!locked.contains(name)) how.maker.replace_fifo(name);
  if (!locked.empty() && !taking_) taking_ = begin_taking(directory_);
  for (const auto& [name, node] : locked) how.maker.mark(name, true);   // from here on nobody gets it
  const Holders now = locked.empty() ? Holders() : holders_of(locked);
  for (const auto& [name, node] : locked) {
    const bool is_taken = take(name, node.get(), now, how, had, said);
    taken = taken || is_taken;
    spared = spared || !is_taken;
  }
  if (const std::string rest = still_run(unit, had); taken && !rest.empty()) said.push_back(rest);
  if (!taken && !spared) said.push_back(fmt::format("{} is not taken back: nobody held it", unit));
  return taken && !spared;
}

TakeBack::Holders TakeBack::holders_of(const std::map<std::string, Fd>& locked) {
  std::set<FileNumber> numbers;
  for (const auto& [name, node] : locked) numbers.insert(number_of_file(node.get()));
  return {kernel_locks(limit_), keepers_by_descriptors(numbers, to_look_)};
}

// A node that is marked; false where who has it is spared.
bool TakeBack::take(const std::string& name, int node, const Holders& now, const How& how, std::set<pid_t>& had,
                    std::vector<std::string>& said) {
  const std::vector<pid_t> seen = now.seen_of(number_of_file(node));
  std::vector<pid_t> lockers = who_took(now.listed, node, seen);
  const bool all_are_named = before_.steady && now.listed.steady && before_.whole && now.listed.whole;
  if (!all_are_named || lockers.empty()) lockers.insert(lockers.end(), seen.begin(), seen.end());
  std::string spared;
  if (!all_are_named && to_look_.over())
    spared = "who has it cannot be told: somebody has more descriptors than can be looked at";
  if (lockers.empty() && !(before_.whole && now.listed.whole))
    spared = "who has it cannot be told" + (now.listed.crowd.empty() ? "" : ", " + now.listed.crowd);
  for (pid_t pid : lockers)
    if (spared.empty() && has_got_it_since(pid, name, node, how.group))
      spared = describe_process(pid) + " has got it just now";
  if (!spared.empty()) {
    how.maker.mark(name, false);
    said.push_back(fmt::format("{} is not taken back: {}", name, spared));
    return false;
  }
  const std::string keeper = seen.empty() ? describe_keeper(node) : describe_process(seen.front()) + " holds it";
  said.push_back(fmt::format("{} is taken back; {}", name, keeper));
  had.insert(seen.begin(), seen.end());
  how.maker.replace_fifo(name);
  return true;
}

// A lock can be handed on, and whoever locks what he was handed is the one whom the kernel names: so nobody has got it while
// who had it before has it still, and nobody whom the users' lists do not know (each user has thousands of subordinate uids).
bool TakeBack::has_got_it_since(pid_t pid, const std::string& name, int node, std::optional<gid_t> group) const {
  const auto before = meant_.find(name);
  const auto user = user_ids_of(pid);
  if (!user) return says_nothing(errno);   // then he is spared
  if (before != meant_.end()) {
    const Meant& meant = before->second;
    if (meant.users.contains(user->real) || meant.users.contains(user->effective)) return false;
    Allowance allowance(for_init_to_tell);
    const Stop stop = [&] { return allowance.over(); };
    const auto has_it_still = [&](pid_t had) { return keeps_lock(had, node, stop).value_or(false); };
    if (std::ranges::any_of(meant.processes, has_it_still)) return false;
  }
  if (group && !process_is_member(pid, *group)) return false;
  return has_account(user->real);
}

}  // namespace thole::host
