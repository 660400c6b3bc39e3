#include "app/claim/new_end.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "app/claim/line_as_told.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/place/free.hpp"

namespace thole::app {
namespace {

constexpr unsigned most_looks = 10;              // who holds something can change its end all the time

bool is_within(std::optional<WallTime> until, std::optional<WallTime> ends_by) {
  return !ends_by || (until && *until <= *ends_by);
}

// Somebody whom the claim has passed, still in line, and by when it is to end for his sake, where that is known.
struct Delayed {
  std::uint32_t uid = 0;
  std::optional<WallTime> ends_by;
};

struct StillThere {
  std::vector<model::InLine> with_ticket;
  std::vector<model::InLine> by_word;            // the ticket was written over, and he says himself that he waits
  bool nobody() const { return with_ticket.empty() && by_word.empty(); }
};

StillThere still_there(port::ClaimStore& store, const EndOfClaim& claim, const std::vector<model::Waiting>& waiting) {
  StillThere there;
  for (const model::InLine& passed : claim.passed) {
    const bool has_ticket = std::ranges::any_of(waiting, [&](const model::Waiting& one) {
      return one.vouched && !one.stopped && passed.first == one.ticket &&
             (passed.second == one.uid || one.uid == static_cast<std::uint32_t>(-1));
    });
    if (has_ticket) there.with_ticket.push_back(passed);
  }
  if (there.with_ticket.size() == claim.passed.size()) return there;
  const std::vector<model::InLine> said = store.said_in_line(claim.keys);
  const auto shown = [&](const model::InLine& passed) {   // what anybody has written over shows nobody
    return std::ranges::any_of(waiting, [&](const model::Waiting& one) { return one.vouched && one.ticket == passed.first; });
  };
  for (const model::InLine& passed : claim.passed)
    if (std::ranges::count(said, passed) > 0 && !shown(passed)) there.by_word.push_back(passed);
  return there;
}

// Of this claim: by its units too, for anybody can write another's id into his own note.
bool is_of(const EndOfClaim& claim, const model::Holding& holding) {
  return last_part(holding.id) == last_part(claim.id) && std::ranges::count(claim.keys, holding.key) > 0;
}

// What the line is promised while this claim ends then.
std::vector<std::optional<WallTime>> promises_if(const Site& site, std::vector<model::Holding> holdings,
                                                 const std::vector<model::Waiting>& waiting, const EndOfClaim& claim,
                                                 std::optional<WallTime> until) {
  const WallTime now = site.clock.wall();
  for (model::Holding& holding : holdings)
    if (is_of(claim, holding)) holding.until = until;
  const model::Snapshot& snapshot = site.observer.snapshot();
  LineAsTold line;
  for (const model::Unit& unit : site.observer.units()) {
    std::vector<model::Holding> own;
    for (const model::Holding& holding : holdings)
      if (holding.key == unit.key) own.push_back(holding);
    const plan::Verdict seen = plan::judge(unit, snapshot, model::Request{}, site.policy, {}, "");
    plan::SlotState state = slot_state(unit, snapshot.machine, seen.standing, !own.empty());
    if (own.empty()) state.unclaimed_mib = seen.unclaimed_mib;
    line.add(unit.key, own, state, now);
  }
  for (const model::Waiting& one : waiting) line.add(one);
  return plan::promises(line.view, line.states, now);
}

// The line and the claims at one moment.
struct Look {
  std::vector<model::Waiting> waiting;
  StillThere there;
  std::vector<model::Holding> holdings;

  std::optional<WallTime> declared_end(const EndOfClaim& claim) const {
    const auto one = std::ranges::find_if(holdings, [&](const model::Holding& its) { return is_of(claim, its); });
    return one == holdings.end() ? std::nullopt : one->until;
  }
};

Look look(port::ClaimStore& store, const EndOfClaim& claim) {
  std::vector<model::Waiting> waiting = store.waiting();
  StillThere there = still_there(store, claim, waiting);
  return {std::move(waiting), std::move(there), store.holdings()};
}

// Without an earlier end nothing is promised by it.
bool is_later(std::optional<WallTime> until, std::optional<WallTime> earlier) {
  return earlier && (!until || *until > *earlier);
}

// Whom that end puts off, compared with the earlier one; absent: nobody.
std::optional<Delayed> put_off_by(const Site& site, const EndOfClaim& claim, const Look& seen, std::optional<WallTime> earlier,
                                  std::optional<WallTime> until) {
  const StillThere& there = seen.there;
  if (there.nobody()) return std::nullopt;
  const model::InLine& first = there.with_ticket.empty() ? there.by_word.front() : there.with_ticket.front();
  if (!is_within(until, claim.ends_by)) return Delayed{first.second, claim.ends_by};
  if (!is_later(until, earlier)) return std::nullopt;
  if (!there.by_word.empty()) return Delayed{there.by_word.front().second, std::nullopt};   // what he wants is not to be seen
  const WallTime now = site.clock.wall();
  const auto after_now = [&](WallTime when) { return std::max(when, now + Millis{1}); };
  const auto was = promises_if(site, seen.holdings, seen.waiting, claim, after_now(*earlier));
  const auto is = promises_if(site, seen.holdings, seen.waiting, claim, until);
  std::optional<Delayed> found;
  for (std::size_t i = 0; i < seen.waiting.size(); ++i) {
    if (!was[i] || std::ranges::count(there.with_ticket, seen.waiting[i].ticket, &model::InLine::first) == 0) continue;
    if ((!is[i] || *is[i] > std::max(*was[i], now)) && (!found || *was[i] < *found->ends_by))
      found = Delayed{seen.waiting[i].uid, after_now(*was[i])};
  }
  return found;
}

struct Moved {
  std::optional<Delayed> puts_off;               // then nothing is recorded
  bool is_recorded = false;
};

// For want of order: the new end is known to others before they are looked at again, and is taken back where it puts somebody
// off. What somebody decides by it in between stands.
Moved move_without_order(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, std::optional<WallTime> before,
                         std::optional<WallTime> until) {
  if (!store.amend(claim.id, until)) return {};
  auto whom = put_off_by(site, claim, look(store, claim), before, until);
  if (whom) store.amend(claim.id, before);
  return {std::move(whom), true};
}

// What is decided by a look is recorded only if nobody holds anything else, or longer, since: of two claims that want a later
// end at the same moment, and of a claim and one that starts then, the second sees the first.
Moved move_end(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, std::optional<WallTime> until) {
  for (unsigned tries = 1;; ++tries) {
    const std::optional<std::string> moment = store.moment();
    const Look seen = look(store, claim);
    const std::optional<WallTime> before = seen.declared_end(claim);
    if (auto whom = put_off_by(site, claim, seen, before, until)) return {std::move(whom)};
    if (!moment || tries == most_looks) return move_without_order(store, site, claim, before, until);
    const port::Amended amended = store.amend_as_of(*moment, claim.id, until);
    if (amended != port::Amended::outdated) return {{}, amended == port::Amended::recorded};
  }
}

[[noreturn]] void refuse_to_put_off(const Delayed& whom, const Site& site) {
  const WallTime now = site.clock.wall();
  const std::string user = printable(site.user_name(whom.uid), 32);
  if (!whom.ends_by)
    throw Error(ErrorCode::unavailable, fmt::format("{} has let this claim go first, and is told by when it ends", user))
        .hint("it can be extended once nobody of them waits any more");
  const auto left = std::chrono::floor<Seconds>(*whom.ends_by - now);
  throw Error(ErrorCode::unavailable, fmt::format("{} has let this claim go first, since it was to end by {}", user,
                                                  format_local(*whom.ends_by, now)))
      .hint(left > Seconds{0} ? "it can be extended until then: thole extend " + format_duration(left)
                              : "it can be extended once nobody of them waits any more");
}

}  // namespace

EndOfClaim end_of_claim(const Acquired& acquired) {
  return {acquired.claim.id(), acquired.claim.keys(), acquired.passed, acquired.ends_by};
}

bool may_end_at(port::ClaimStore& store, const Site& site, Acquired& acquired, std::optional<WallTime> until) {
  if (acquired.passed.empty()) return true;
  const EndOfClaim claim = end_of_claim(acquired);
  const Look seen = look(store, claim);
  if (seen.there.nobody()) {
    acquired.passed.clear();
    acquired.ends_by.reset();
    return true;
  }
  const std::optional<WallTime> before = seen.declared_end(claim);
  if (before && !is_later(until, before)) return true;
  const Moved moved = move_end(store, site, claim, until);
  return moved.is_recorded && !moved.puts_off;
}

bool amend_end(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, std::optional<WallTime> until) {
  if (claim.passed.empty()) return store.amend(claim.id, until);
  const Moved moved = move_end(store, site, claim, until);
  if (moved.puts_off) refuse_to_put_off(*moved.puts_off, site);
  return moved.is_recorded;
}

}  // namespace thole::app
