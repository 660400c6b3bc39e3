#include "load.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace thole::torture {
namespace {

constexpr std::int64_t around_a_look = 100;   // ms

}  // namespace

std::int64_t steady_ms() {
  return std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Load::note_stall(std::int64_t from, std::int64_t to) {
  if (to - from < short_stall) return;
  const unsigned at = stalls_count_++;
  if (at >= stalls_.size()) return;
  stalls_[at].from = from;
  stalls_[at].to = to;
}

void Load::note_late_promise(std::int64_t promised_at, std::int64_t late) {
  const unsigned at = late_count_++;
  if (at >= late_.size()) return;
  late_[at].from = promised_at;
  late_[at].to = steady_ms();
  late_[at].late = late;
}

void Load::note_late_wake() { note_late_promise(steady_ms(), 0); }

std::int64_t Load::stalled(std::int64_t from, std::int64_t to, std::int64_t least) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  for (unsigned i = 0; i < stalls(); ++i)
    if (stalls_[i].to - stalls_[i].from >= least && stalls_[i].from < to && stalls_[i].to > from)
      all.emplace_back(std::max<std::int64_t>(stalls_[i].from, from), std::min<std::int64_t>(stalls_[i].to, to));
  std::sort(all.begin(), all.end());
  std::int64_t sum = 0, end = from;
  for (const auto& [begin, until] : all) {
    if (until <= end) continue;
    sum += until - std::max(begin, end);
    end = until;
  }
  return sum;
}

std::int64_t Load::longest() const {
  std::int64_t longest = 0;
  for (unsigned i = 0; i < stalls(); ++i) longest = std::max<std::int64_t>(longest, stalls_[i].to - stalls_[i].from);
  return longest;
}

Load::Verdict Load::judge(std::int64_t slack) const {
  Verdict verdict;
  verdict.overflow = late_count_ > late_.size();
  for (unsigned i = 0; i < std::min<unsigned>(late_count_, static_cast<unsigned>(late_.size())); ++i) {
    const Late& one = late_[i];
    if (one.late == 0) {
      const bool by_load = stalled(one.from - around_a_look, one.to + around_a_look, short_stall) > 0;
      ++(by_load ? verdict.clock_by_load : verdict.lost);
      continue;
    }
    const std::int64_t beyond = one.late - stalled(one.from, one.to, long_stall);
    ++(beyond <= slack ? verdict.late_by_load : verdict.broken);
    if (beyond > slack) verdict.latest = std::max(verdict.latest, beyond);
  }
  return verdict;
}

// What it says is brought up to date when the process gets to run, so a stall shows when it is over.
void Watch::look_at(pid_t pid, std::int64_t now) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
  std::int64_t ran = 0, waited = 0;
  if (!(file >> ran >> waited)) return;
  waited /= 1'000'000;
  const auto [known, is_new] = waited_.try_emplace(pid, waited);
  load_.note_stall(now - (waited - (is_new ? 0 : known->second)), now);
  known->second = waited;
}

}  // namespace thole::torture
