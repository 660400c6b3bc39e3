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

// Those whose descriptors keep these, however long anybody has made the kernel's list; of strangers with more descriptors than
// there is time for not all are found.
std::map<FileNumber, std::vector<pid_t>> who_have(const std::set<FileNumber>& nodes, Allowance& allowance) {
  std::map<FileNumber, std::vector<pid_t>> found;
  const Stop stop = [&] { return allowance.over(); };
  for (pid_t pid : all_pids()) {
    std::set<FileNumber> its;
    for (pid_t thread : threads_with_descriptors(pid)) its.merge(kept_locks(thread, nodes, stop).files);
    for (const FileNumber& node : its) found[node].push_back(pid);
  }
  return found;
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
  for (unsigned place = 0; place < model::share_places; ++place) names.push_back(share_node(unit, place));
  return names;
}

bool stays_locked(int fd) {
  for (int tries = 0; tries < 5; ++tries) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return false;
    pause_briefly();
  }
  return true;
}

TakeBack::TakeBack(int directory, const std::vector<std::string>& units, std::chrono::nanoseconds limit)
    : directory_(directory), units_(units), limit_(limit) {
  if (units.empty()) return;
  before_ = kernel_locks(limit_);
  std::map<std::string, Fd> locked;
  std::set<FileNumber> numbers;
  for (const std::string& unit : units)
    for (const std::string& name : nodes_of(unit)) {
      Fd node = open_node(directory, name);
      if (!node || !stays_locked(node.get())) continue;
      numbers.insert(number_of_file(node.get()));
      locked.emplace(name, std::move(node));
    }
  std::map<FileNumber, std::vector<pid_t>> holders_of = who_have(numbers, to_look_);
  for (const auto& [name, node] : locked) {
    const std::vector<pid_t>& holders = holders_of[number_of_file(node.get())];
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
  bool taken = !how.lost.empty(), spared = false;
  if (taken) said.push_back(fmt::format("{} is taken back; {} has its deleted lock", gpu_node(unit), how.lost));
  std::set<pid_t> had(how.inside.begin(), how.inside.end());
  for (const std::string& name : nodes_of(unit)) {
    const Done done = node(name, how, had, said);
    taken = taken || done == Done::taken;
    spared = spared || done == Done::spared;
  }
  if (const std::string rest = still_run(unit, had); taken && !rest.empty()) said.push_back(rest);
  if (!taken && !spared) said.push_back(fmt::format("{} is not taken back: nobody held it", unit));
  return taken && !spared;
}

TakeBack::Done TakeBack::node(const std::string& name, const How& how, std::set<pid_t>& had,
                              std::vector<std::string>& said) {
  const Uninterrupted whole;
  const Fd node = open_node(directory_, name);
  if (!node || !stays_locked(node.get())) return how.maker.replace_fifo(name), Done::nobody_had_it;
  const std::string keeper = describe_keeper(node.get());
  if (!taking_) taking_ = begin_taking(directory_);
  how.maker.mark(name, true);   // from here on nobody gets it
  const KernelLocks now = kernel_locks(limit_);
  const FileNumber number = number_of_file(node.get());
  const std::vector<pid_t> seen = who_have({number}, to_look_)[number];
  std::vector<pid_t> lockers = who_took(now, node.get(), seen);
  const bool all_are_named = before_.steady && now.steady && before_.whole && now.whole;
  if (!all_are_named || lockers.empty()) lockers.insert(lockers.end(), seen.begin(), seen.end());
  std::string spared;
  if (!all_are_named && to_look_.over())
    spared = "who has it cannot be told: somebody has more descriptors than can be looked at";
  if (lockers.empty() && !(before_.whole && now.whole))
    spared = "who has it cannot be told" + (now.crowd.empty() ? "" : ", " + now.crowd);
  for (pid_t pid : lockers)
    if (spared.empty() && has_got_it_since(pid, name, node.get(), how.group))
      spared = describe_process(pid) + " has got it just now";
  if (!spared.empty()) {
    how.maker.mark(name, false);
    said.push_back(fmt::format("{} is not taken back: {}", name, spared));
    return Done::spared;
  }
  said.push_back(fmt::format("{} is taken back; {}", name, keeper));
  had.insert(seen.begin(), seen.end());
  how.maker.replace_fifo(name);
  return Done::taken;
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
