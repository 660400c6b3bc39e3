// What tasks have left behind outside of their groups.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "host/process/helpers.hpp"
#include "host/process/shown_environment.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/task_pool.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

// The claim itself, or one that was made inside it.
bool is_within(const std::string& shown, const std::string& claim) {
  return !claim.empty() && (shown == claim || shown.starts_with(claim + "/"));
}

}  // namespace

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

// Children that are no command of a place; those that have ended are waited for here, but for our own helpers. Whoever lives
// below us has a child of ours above it, which may have ended since: so only a list without any proves that there is nobody.
bool EpollPool::has_other_children() {
  for (int looks = 0; looks < 16; ++looks) {
    std::optional<std::vector<pid_t>> children = listed_children();
    if (!children || is_helper_starting()) return true;
    std::erase_if(*children, [&](pid_t child) {
      return is_command(child) || is_helper(child) || is_of_a_queue(child) || is_of_a_lost_lane(child);
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

// Whoever shows no claim, which a program may have wiped out, is of the one that its parent is of.
std::vector<EpollPool::Stray> EpollPool::left_behind() const {
  std::vector<Stray> left;
  std::map<pid_t, bool> of_tasks;                // parents come before children
  std::map<pid_t, std::string> claims;
  for (auto& process : our_descendants()) {
    const auto runs = [&](const auto& place) {
      return place && place->pid > 0 && (process.pid == place->pid || process.group == place->pid);
    };
    const bool of_task = of_tasks[process.parent] || std::ranges::any_of(places_, runs) ||
                         std::ranges::find(strangers_, process.pid) != strangers_.end() ||
                         (process.parent == ::getpid() && is_of_a_lost_lane(process.pid));
    of_tasks[process.pid] = of_task;
    if (of_task) continue;
    std::string claim = process.hidden ? std::string() : claim_of(process.pid);
    if (claim.empty()) claim = claims[process.parent];
    claims[process.pid] = claim;
    left.push_back({std::move(process), std::move(claim)});
  }
  return left;
}

// Where the kernel lists no children, as long as no command runs.
bool EpollPool::lives_unlisted() const {
  const bool runs = std::ranges::any_of(places_, [](const auto& place) { return place && place->pid > 0; });
  return !runs && !had_strangers_ && strangers_.empty() && has_living_children();
}

port::Strays EpollPool::strays(const std::vector<std::string>& claims) {
  port::Strays strays;
  bool left = has_other_children();
  if (left) {
    const std::vector<Stray> found = left_behind();
    for (const Stray& stray : found) {
      const auto its = std::ranges::find_if(claims, [&](const std::string& claim) { return is_within(stray.claim, claim); });
      if (its != claims.end()) strays.of[*its].push_back(describe_process(stray.process));
      else if (had_strangers_) std::ranges::copy(spared_.new_ones({stray.process}), std::back_inserter(strays.spared));
      else strays.nobodys.push_back(describe_process(stray.process));
      strays.unknown = strays.unknown || (stray.claim.empty() && !had_strangers_);
    }
    if (found.empty() && groups_left_ == 0) strays.unknown = left = listed_children() ? has_other_children() : lives_unlisted();
  }
  strays_left_ = left;
  return strays;
}

std::vector<ProcessStat> EpollPool::strays_of(const port::Whose& whose) const {
  std::vector<ProcessStat> its;
  for (Stray& stray : left_behind()) {
    const auto shows = [&](const std::string& claim) { return is_within(stray.claim, claim); };
    if (whose.claim.empty() ? std::ranges::none_of(whose.apart, shows) : shows(whose.claim))
      its.push_back(std::move(stray.process));
  }
  return its;
}

// What may fork meanwhile is stopped before it is killed.
std::vector<std::string> EpollPool::end_strays(const port::Whose& whose, int signal) {
  if (is_helper_starting() || (whose.claim.empty() && had_strangers_)) return {};
  const auto look = [&] { return strays_of(whose); };
  if (signal == SIGKILL) freeze(look);
  return out_of_reach_.new_ones(signal_all(look(), signal));
}

// As children, whose numbers are nobody else's before they are waited for; the others are below one of these.
void EpollPool::give_up_strays(const port::Whose& whose) {
  if (whose.claim.empty() && had_strangers_) return;
  for (const ProcessStat& process : strays_of(whose))
    if (process.parent == ::getpid()) strangers_.push_back(process.pid);
}

}  // namespace thole::host
