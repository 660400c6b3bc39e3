#include "app/claim/new_end.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <utility>

#include "app/claim/line_as_told.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/place/free.hpp"

namespace thole::app {
namespace {

constexpr unsigned most_looks = 20;              // who holds something can change its end all the time
constexpr Seconds longest_look{2};

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
  std::vector<model::InLine> unseen;
  for (const model::InLine& passed : claim.passed) {
    const auto ticket = std::ranges::find_if(waiting, [&](const model::Waiting& one) {   // anybody can write another's number
      return one.vouched && passed.first == one.ticket &&
             (passed.second == one.uid || one.uid == static_cast<std::uint32_t>(-1));
    });
    if (ticket == waiting.end()) unseen.push_back(passed);
    else if (!ticket->stopped) there.with_ticket.push_back(passed);   // others go before who is stopped
  }
  if (unseen.empty()) return there;
  std::set<uid_t> users;                         // of others any number says so
  for (const model::InLine& passed : unseen) users.insert(passed.second);
  const std::vector<model::InLine> said = store.said_in_line(claim.keys, users);
  for (const model::InLine& passed : unseen)
    if (std::ranges::count(said, passed) > 0) there.by_word.push_back(passed);
  return there;
}

// Of this claim: by its units too, for anybody can write another's id into his own note.
bool is_of(const EndOfClaim& claim, const model::Holding& holding) {
  return last_part(holding.id) == last_part(claim.id) && std::ranges::count(claim.keys, holding.key) > 0;
}

bool wants_any_of(const model::Waiting& waiter, const EndOfClaim& claim) {
  return std::ranges::any_of(claim.keys, [&](const std::string& key) { return std::ranges::count(waiter.eligible, key) > 0; });
}

// What the line can count on while this claim ends then.
std::vector<plan::Outlook> outlooks_if(const Site& site, const Observer& observer, std::vector<model::Holding> holdings,
                                       const std::vector<model::Waiting>& waiting, const EndOfClaim& claim,
                                       std::optional<WallTime> until) {
  const WallTime now = site.clock.wall();
  for (model::Holding& holding : holdings)
    if (is_of(claim, holding)) holding.until = until;
  const model::Snapshot& snapshot = observer.snapshot();
  holdings = by_units(std::move(holdings), observer.units(), snapshot.machine);
  LineAsTold line;
  for (const model::Unit& unit : observer.units()) {
    std::vector<model::Holding> own;
    for (const model::Holding& holding : holdings)
      if (holding.key == unit.key) own.push_back(holding);
    line.add(unit.key, own, slot_state(unit, snapshot, site.common_policy, own), now);
  }
  for (const model::Waiting& one : waiting) line.add(one);
  return plan::outlooks(line.view, line.states, now);
}

// What uses a GPU without a claim keeps it from who waits: since the claim has begun that may be another one.
class SeenNow {
 public:
  explicit SeenNow(const Site& site) : site_(site) {}

  // Throws Error(unavailable) where a driver does not answer.
  const Observer& observer() {
    if (!site_.look_anew) return site_.observer;
    if (!anew_) anew_ = site_.look_anew();
    for (const model::Observation& seen : anew_->snapshot().observations)
      if (!seen.answered || seen.age)
        throw Error(ErrorCode::unavailable,
                    "others have let this claim go first, and whether a later end puts one of them off cannot be told while "
                    "the driver does not answer")
            .about(seen.source)
            .hint("try again; meanwhile it ends when it was to");
    return *anew_;
  }

 private:
  const Site& site_;
  std::unique_ptr<Observer> anew_;
};

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
std::optional<Delayed> put_off_by(const Site& site, SeenNow& now_seen, const EndOfClaim& claim, const Look& seen,
                                  std::optional<WallTime> earlier, std::optional<WallTime> until) {
  const StillThere& there = seen.there;
  if (there.nobody()) return std::nullopt;
  const model::InLine& first = there.with_ticket.empty() ? there.by_word.front() : there.with_ticket.front();
  if (!is_within(until, claim.ends_by)) return Delayed{first.second, claim.ends_by};
  if (!is_later(until, earlier)) return std::nullopt;
  if (!there.by_word.empty()) return Delayed{there.by_word.front().second, std::nullopt};   // what he wants is not to be seen
  const WallTime now = site.clock.wall();
  const auto after_now = [&](WallTime when) { return std::max(when, now + Millis{1}); };
  const Observer& observer = now_seen.observer();
  const auto was = outlooks_if(site, observer, seen.holdings, seen.waiting, claim, after_now(*earlier));
  const auto is = outlooks_if(site, observer, seen.holdings, seen.waiting, claim, until);
  std::optional<Delayed> found;
  for (std::size_t i = 0; i < seen.waiting.size(); ++i) {
    const model::Waiting& waiter = seen.waiting[i];
    if (std::ranges::count(there.with_ticket, waiter.ticket, &model::InLine::first) == 0) continue;
    std::optional<WallTime> ends_by;             // where this end keeps him waiting longer
    if (was[i].start) {
      if (!is[i].start || *is[i].start > std::max(*was[i].start, now)) ends_by = *was[i].start;
    } else if (was[i].held_up_until && wants_any_of(waiter, claim)) {   // as it is for whoever would begin now
      const WallTime latest = std::max(*was[i].held_up_until, *earlier);
      if (!until || *until > latest) ends_by = latest;
    } else if (waiter.leave == 0 && wants_any_of(waiter, claim)) {   // passed over for a moment, by a stranger's use
      ends_by = *earlier;
    }
    if (ends_by && (!found || *ends_by < *found->ends_by)) found = Delayed{waiter.uid, after_now(*ends_by)};
  }
  return found;
}

struct Moved {
  std::optional<Delayed> puts_off{};             // then nothing is recorded
  bool is_recorded = false;
  bool in_no_order = false;                      // nor then
};

// What is decided by a look is recorded only if nobody holds anything else, or longer, since: of two claims that want a later
// end at the same moment, and of a claim and one that starts then, the second sees the first. Where nobody can be sure of that
// it stays as it is: of those who then wrote theirs at once each would count on the others' as they were.
Moved move_end(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, std::optional<WallTime> until) {
  const SteadyTime give_up = site.clock.steady() + longest_look;
  SeenNow now_seen(site);
  for (unsigned tries = 1;; ++tries) {
    const std::optional<model::Moment> moment = store.moment();
    const Look seen = look(store, claim);
    const std::optional<WallTime> before = seen.declared_end(claim);
    const bool no_later = before && !is_later(until, before);   // it puts nobody off, in whatever order
    if (seen.there.nobody() || no_later) return {.is_recorded = store.amend(claim.id, until)};
    auto whom = put_off_by(site, now_seen, claim, seen, before, until);
    if (whom) return {.puts_off = std::move(whom)};
    if (moment) {
      const port::Amended amended = store.amend_as_of(*moment, claim.id, until);
      if (amended != port::Amended::outdated) return {.is_recorded = amended == port::Amended::recorded};
    }
    if (!moment || tries == most_looks || site.clock.steady() > give_up) return {.in_no_order = true};
  }
}

[[noreturn]] void refuse_to_put_off(const Delayed& whom, const Site& site) {
  const WallTime now = site.clock.wall();
  const std::string user = printable(site.user_name(whom.uid), 32);
  if (!whom.ends_by)
    throw Error(ErrorCode::unavailable, fmt::format("{} has let this claim go first, and is told by when it ends", user))
        .hint("it can be extended once nobody of them waits any more");
  const Seconds left = plan::typed_later(std::chrono::floor<Seconds>(*whom.ends_by - now));
  throw Error(ErrorCode::unavailable, fmt::format("{} has let this claim go first, since it was to end by {}", user,
                                                  format_local(*whom.ends_by, now)))
      .hint(left > Seconds{0} ? "it can be extended until then: thole extend " + format_duration(left)
                              : "it can be extended once nobody of them waits any more");
}

[[noreturn]] void refuse_without_order(port::ClaimStore& store) {
  const std::string who = store.about().kept_by;
  throw Error(ErrorCode::unavailable,
              fmt::format("others have let this claim go first, and whether a later end puts one of them off cannot be told in "
                          "order now: {}",
                          who.empty() ? "others come and go all the time" : who))
      .hint("try again; meanwhile it ends when it was to");
}

}  // namespace

EndOfClaim end_of_claim(const Acquired& acquired) {
  return {acquired.claim.id(), acquired.claim.keys(), acquired.passed, acquired.ends_by};
}

bool may_end_at(port::ClaimStore& store, const Site& site, const Acquired& acquired, std::optional<WallTime> until) {
  if (acquired.passed.empty()) return true;
  const EndOfClaim claim = end_of_claim(acquired);
  const Look seen = look(store, claim);
  if (seen.there.nobody()) return true;          // whoever is stopped comes back to his number
  const std::optional<WallTime> before = seen.declared_end(claim);
  if (before && !is_later(until, before)) return true;
  try {
    return move_end(store, site, claim, until).is_recorded;
  } catch (const Error&) {                       // nobody can tell
    return false;
  }
}

bool amend_end(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, std::optional<WallTime> until) {
  if (claim.passed.empty()) return store.amend(claim.id, until);
  const Moved moved = move_end(store, site, claim, until);
  if (moved.puts_off) refuse_to_put_off(*moved.puts_off, site);
  if (moved.in_no_order) refuse_without_order(store);
  return moved.is_recorded;
}

void check_hidden_end(port::ClaimStore& store, const Site& site, const EndOfClaim& claim, std::optional<WallTime> earlier,
                      std::optional<WallTime> until) {
  if (claim.passed.empty()) return;
  SeenNow now_seen(site);
  if (const auto whom = put_off_by(site, now_seen, claim, look(store, claim), earlier, until)) refuse_to_put_off(*whom, site);
}

}  // namespace thole::app
