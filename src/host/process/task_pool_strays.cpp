// What tasks have left behind outside of their groups.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "host/process/helpers.hpp"
#include "host/process/left_to_us.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/task_pool.hpp"
#include "host/process/tree.hpp"

namespace thole::host {

// Who has ended may give his number to another.
EpollPool::Reaped EpollPool::reap(idtype_t of, pid_t number) {
  siginfo_t how{};
  const bool any = ::waitid(of, static_cast<id_t>(number), &how, WEXITED | WNOHANG) == 0;
  if (any && how.si_pid == 0) return Reaped::lives;
  std::erase(strangers_, any ? how.si_pid : number);
  return any ? Reaped::ended : Reaped::none;
}

bool EpollPool::has_living_children() {
  siginfo_t any{};
  return ::waitid(P_ALL, 0, &any, WSTOPPED | WNOHANG | WNOWAIT) == 0;
}

// Children that are no command of a bay; those that have ended are waited for here, but for our own helpers. Whoever lives
// below us has a child of ours above it, which may have ended since: so only a list without any proves that there is nobody.
bool EpollPool::has_other_children() {
  for (int looks = 0; looks < 16; ++looks) {
    std::optional<std::vector<pid_t>> children = listed_children();
    if (!children || is_helper_starting()) return true;
    std::erase_if(*children, [&](pid_t child) {
      return is_command(child) || is_helper(child) || is_of_a_queue(child) || is_of_a_lost_lane(child, claims_);
    });
    if (children->empty()) return false;
    bool others = false;
    for (const pid_t child : *children) {
      const bool lives = reap(P_PID, child) == Reaped::lives;
      others = others || (lives && std::ranges::find(strangers_, child) == strangers_.end());
    }
    if (others) return true;
    if (std::ranges::all_of(*children, [&](pid_t child) { return std::ranges::find(strangers_, child) != strangers_.end(); }))
      return false;
  }
  return true;
}

// Whoever shows no claim, which a program may have wiped out, is of the one that its parent is of. Where children were there
// before us it may be theirs, unless what it shows cannot be told: then it is as if there had been none.
std::vector<EpollPool::Stray> EpollPool::left_behind(std::vector<ProcessStat>* of_tasks) const {
  std::vector<Stray> left;
  std::map<pid_t, bool> others;                // parents come before children
  std::map<pid_t, Stray> known;
  Newcomers newcomers;
  for (auto& process : our_descendants()) {
    const bool may_be_new = newcomers.may_be_one(process);
    const auto runs = [&](const auto& bay) {
      return bay && bay->pid > 0 && (process.pid == bay->pid || process.group == bay->pid);
    };
    const bool of_task = others[process.parent] || std::ranges::any_of(bays_, runs) ||
                         std::ranges::find(strangers_, process.pid) != strangers_.end() ||
                         (may_be_new && is_of_a_lost_lane(process.pid, claims_));
    others[process.pid] = of_task;
    if (of_task) {
      if (of_tasks) of_tasks->push_back(std::move(process));
      continue;
    }
    Origin origin = origin_of(process, since_);
    const auto parent = known.find(process.parent);
    const bool spared = had_strangers_ && !origin.may_be_ours;
    Stray stray{std::move(process), std::move(origin.claim), spared};
    if (stray.claim.empty() && parent != known.end()) {
      stray.claim = parent->second.claim;
      stray.may_be_spared = parent->second.may_be_spared;
    }
    known[stray.process.pid] = stray;
    left.push_back(std::move(stray));
  }
  return left;
}

// Where the kernel lists no children, as long as no command runs.
bool EpollPool::lives_unlisted() const {
  const bool runs = std::ranges::any_of(bays_, [](const auto& bay) { return bay && bay->pid > 0; });
  return !runs && !had_strangers_ && strangers_.empty() && has_living_children();
}

port::Strays EpollPool::strays(const std::vector<std::string>& claims) {
  claims_ = claims;
  port::Strays strays;
  bool left = has_other_children();
  if (left) {
    const std::vector<Stray> found = left_behind();
    for (const Stray& stray : found) {
      const auto its = std::ranges::find_if(claims, [&](const std::string& claim) { return is_within(stray.claim, claim); });
      if (its != claims.end()) strays.of[*its].push_back(describe_process(stray.process));
      else if (stray.may_be_spared) std::ranges::copy(spared_.new_ones({stray.process}), std::back_inserter(strays.spared));
      else strays.nobodys.push_back(describe_process(stray.process));
      strays.unknown = strays.unknown || (stray.claim.empty() && !stray.may_be_spared);
    }
    if (found.empty() && groups_left_ == 0) strays.unknown = left = listed_children() ? has_other_children() : lives_unlisted();
  }
  strays_left_ = left;
  return strays;
}

std::vector<ProcessStat> EpollPool::strays_of(const port::Whose& whose, std::vector<ProcessStat>* others) const {
  std::vector<ProcessStat> its;
  for (Stray& stray : left_behind(others)) {
    const auto shows = [&](const std::string& claim) { return is_within(stray.claim, claim); };
    const bool nobodys = !stray.may_be_spared && std::ranges::none_of(whose.apart, shows);
    if (whose.claim.empty() ? nobodys : shows(whose.claim)) its.push_back(std::move(stray.process));
    else if (others) others->push_back(std::move(stray.process));
  }
  return its;
}

// What may fork meanwhile is stopped before it is killed.
std::vector<std::string> EpollPool::end_strays(const port::Whose& whose, model::Signal signal) {
  if (is_helper_starting()) return {};
  if (signal == model::Signal::kill)
    freeze_and_kill_groups([&](std::vector<ProcessStat>& others) { return strays_of(whose, &others); });
  return out_of_reach_.new_ones(signal_all(strays_of(whose), static_cast<int>(signal)));
}

// As children, whose numbers are nobody else's before they are waited for; the others are below one of these.
void EpollPool::give_up_strays(const port::Whose& whose) {
  for (const ProcessStat& process : strays_of(whose))
    if (process.parent == ::getpid()) strangers_.push_back(process.pid);
}

}  // namespace thole::host
