// How this works. One look at the machine gives the units a request could ever use. The claim store then shows the queue to
// plan::decide, through a rule made here that knows what the look saw. After a Take the units are looked at once
// more, now that nobody else can claim them, and they only: a process of the last owner still tearing down is waited for, a
// stranger's means give back, keep the ticket and say so. Between steps everything sleeps in the store.
//
// What could be met when it was asked ends nobody's wait later: a GPU that is sick or has left the driver's list may come back.
// Others pass meanwhile. Until then it is meant by its lasting name, and what a mask hid at first stays hidden.
#include "app/claim/acquire.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "app/claim/choice.hpp"
#include "app/claim/entering.hpp"
#include "app/claim/inside_another.hpp"
#include "app/claim/late_driver.hpp"
#include "app/claim/line_as_told.hpp"
#include "app/claim/locks_around.hpp"
#include "app/claim/outer_claim.hpp"
#include "app/claim/selection.hpp"
#include "app/claim/taken_back.hpp"
#include "app/claim/wish.hpp"
#include "base/printable_lines.hpp"
#include "base/random.hpp"
#include "base/refusal.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "plan/place/free.hpp"

namespace thole::app {

namespace {

constexpr unsigned most_tries = 3;        // of one who does not wait, while nobody can be asked whose turn it is
constexpr Millis teardown_bound{2'000};   // for a previous owner's process to leave a unit that was just released
constexpr Millis longest_doubt{3'000};    // for use that was only just seen to end, before others are passed for it
constexpr Millis settling{200};           // news of a wait that are over by then are not told
constexpr Millis standing_still{500};     // between looks at a stopped one we wait for: its going on is no event to us
constexpr Millis a_moment_ago{500}, long_ago{5'000};      // a look that will do to decide; ... to go on waiting
constexpr Millis for_it_to_come_back{1'000};

// Waits until one of the strangers ends or the bound passes; the caller's cancel ends it by Error.
void wait_for_end(const std::vector<pid_t>& strangers, const std::vector<int>& cancel, Millis bound) {
  std::vector<Fd> ends;
  std::vector<int> fds = cancel;
  for (pid_t pid : strangers)
    if (Fd end = open_pidfd(pid)) { fds.push_back(end.get()); ends.push_back(std::move(end)); }
  if (any_ready(fds, bound) && !cancel.empty() && any_ready(cancel, Millis{0})) wait_interrupted();
}

// One acquisition from a given store: the loop of step, check and sleep.
class Acquisition {
 public:
  // `ticket`: for what is wished; null: it has none yet.
  Acquisition(Site& site, port::ClaimStore& store, Wish wish, const AcquireOptions& options, OuterClaim* within,
              std::unique_ptr<port::Ticket> ticket)
      : site_(site), store_(store), request_(std::move(wish.request)), lasting_(std::move(wish.lasting)), options_(options),
        within_(within), allotted_(std::move(wish.allotted)), choice_(site, lasting_, in_use(within, request_)),
        deadline_(wish.deadline), ticket_(std::move(ticket)) {
    choice_.set_eligible(std::move(wish.eligible));
    const std::vector<std::string> keys = keys_of(site, choice_.eligible());
    wanted_ = {keys.begin(), keys.end()};
    if (const auto& had = options.had; had && !had->empty()) {
      waited_.emplace();                         // it could be met
      for (const std::string& key : *had)
        if (wish.lack || !is_listed(key)) wanted_.insert(key);
    }
    if (wish.lack) tell_lack(*wish.lack);
    if (!ticket_) ticket_ = store.enter(entry_for(request_, options, {wanted_.begin(), wanted_.end()}));
  }

  Acquired finish() {
    bool looked_again = false, asked_for_parts = false, told = false, due = false;
    unsigned tries_without_order = 0;
    const bool waits = request_.wait != Seconds{0};
    for (;;) {
      std::optional<port::Claim> claim = step();
      if (claim) {
        if (!waited_) waited_.emplace();        // it could be met
        ticket_->pass_on();
        auto alone = options_.alone ? options_.alone() : nullptr;
        const std::string used = still_used(*claim, told), taken = used.empty() ? taken_since(*claim) : "";
        if (used.empty() && taken.empty()) return hand_over(std::move(*claim), std::move(alone));
        tell(used + taken);
        claim.reset();                          // give back; the ticket is kept
        if (!taken.empty()) {                   // it may be, again and again
          const bool late = waits ? deadline_ && site_.clock.steady() >= *deadline_ : ++tries_without_order >= most_tries;
          if (late) give_up();
          rest(Millis{20});
        }
        passed_.clear();
        ends_by_.reset();
        heed_interruption(options_);            // it may be taken, and given back, again and again without a sleep
        select_again();
        continue;
      }
      const model::Decision& decision = ticket_->decision();
      if (const auto* refuse = std::get_if<model::Refuse>(&decision)) throw_refusal(refuse->usage, refuse->why);
      const auto& wait = std::get<model::Wait>(decision);
      if (!within_ && !std::exchange(asked_for_parts, true) && !avoid_parts_of_claimed().empty()) continue;
      if (wait.observe.any() && !looked_again) {  // what was seen may be an owner's who has left since
        looked_again = true;
        look();
        continue;
      }
      if (!within_ && !told) refuse_to_wait_for_oneself(site_, request_, choice_.eligible());
      if (!told && waits) refuse_to_wait_for_own(site_, store_, request_, choice_.eligible(), options_.own);
      if (std::exchange(told, true) && waits && !std::exchange(due, false)) {
        const Woken settled = sleep(wait, site_.clock.steady() + settling);
        due = settled == Woken::by_clock;         // a look that is due is made before anything is told, and then it is told
        if (settled != Woken::by_deadline) continue;
      }
      if (options_.waiting) options_.waiting({site_, wait, site_.observer.snapshot(), site_.observer.units()});
      if (!waits) {
        if (choice_.ordered() || ++tries_without_order >= most_tries) give_up();
        rest(wait.look_again.value_or(Millis{0}));   // what kept a unit from us may have been another's look at it
        continue;
      }
      if (sleep(wait, deadline_) == Woken::by_deadline) give_up();
    }
  }

 private:
  // What has kept the rule from deciding.
  enum class OffBy { nothing, stop, unseen_load, doubt };

  // While the one it waits for is stopped it leaves the line, as if it were stopped itself; the ticket is kept. Where
  // others in line take GPUs beside somebody's use, how much that is has to be seen first.
  std::optional<port::Claim> step() {
    for (;;) {
      std::optional<port::Claim> claim = try_step();
      switch (off_by_) {
        case OffBy::nothing: return claim;
        case OffBy::unseen_load:
          by_load_ = true;
          look();
          break;
        case OffBy::doubt:
          rest(a_moment_ago);
          look();
          break;
        case OffBy::stop:
          ticket_->pass_on();
          while (options_.stands_still()) {
            if (deadline_ && site_.clock.steady() >= *deadline_) give_up();
            rest(standing_still);
          }
      }
    }
  }

  std::optional<port::Claim> try_step() {
    for (;;) try {
        off_by_ = OffBy::nothing;
        return ticket_->step([&](const auto& queue, auto mine, const auto& wants, auto now) -> model::Decision {
          off_by_ = options_.stands_still && options_.stands_still() ? OffBy::stop : OffBy::nothing;
          if (off_by_ == OffBy::stop) return model::Refuse{};
          return decide(queue, mine, wants, now);
        });
      } catch (const Error& error) {
        if (error.code() != ErrorCode::unavailable || !goes_on_without(store_.about().out_of_reach, error)) throw;
      }
  }

  model::Decision decide(const model::QueueView& queue, std::optional<std::uint64_t> mine, const model::Wants& wants,
                         WallTime now) {
    model::Decision decision = choice_(queue, mine, wants, now);
    if (choice_.lacks_load() && !by_load_) {
      off_by_ = OffBy::unseen_load;
      return model::Refuse{};
    }
    const auto* take = std::get_if<model::Take>(&decision);
    if (const auto* wait = std::get_if<model::Wait>(&decision)) waited_ = *wait;
    if (waited_ && std::holds_alternative<model::Refuse>(decision)) {
      waited_->passed_over = true;
      waited_->look_again = for_it_to_come_back;
      return *waited_;
    }
    if (is_in_doubt(take)) {
      if (mine) {                              // as long as that it waits on
        if (!waited_) waited_.emplace();       // it could be met
        waited_->look_again = a_moment_ago;
        return *waited_;
      }
      off_by_ = OffBy::doubt;
      return model::Refuse{};
    }
    // A sharer is asked once more, of the budgets alone (no line is shown).
    if (take && !take->passed.empty()) passed_ = take->passed, ends_by_ = take->ends_by;
    return decision;
  }

  // Somebody would be passed by use that may end by itself.
  bool is_in_doubt(const model::Take* take) {
    if (!take || !choice_.is_unsure()) {
      doubt_began_.reset();
      return false;
    }
    const SteadyTime now = site_.clock.steady();
    if (!doubt_began_) doubt_began_ = now;
    return now < *doubt_began_ + longest_doubt;
  }

  // A unit that cannot be claimed keeps nobody from the others, if they are enough; nor does it end a wait.
  bool goes_on_without(const std::vector<port::OutOfReach>& out_of_reach, const Error& why) {
    const std::size_t known = out_of_reach_.size();
    for (const port::OutOfReach& unit : out_of_reach) out_of_reach_.insert(unit.key);
    const std::vector<std::size_t> left = reached(choice_.eligible());
    if (out_of_reach_.size() == known) return false;
    if (left.size() < std::size_t{request_.gpus} + request_.leave) {
      if (!waited_ || request_.wait == Seconds{0}) return false;
      tell_lack(why);
    }
    want(left);
    return true;
  }

  void tell(const std::string& what) {
    if (options_.caution) options_.caution(what);
  }

  // Once, as long as it is the same.
  void tell_lack(const Error& error) {
    const std::string what = (error.object().empty() ? "" : error.object() + ": ") + in_one_line(error.what());
    if (std::exchange(lacks_, what) != what) tell(what + "; waiting for that to change");
  }

  std::vector<std::size_t> reached(std::vector<std::size_t> units) const {
    std::erase_if(units, [this](std::size_t unit) { return out_of_reach_.contains(site_.observer.units()[unit].key); });
    return units;
  }

  // The rule and the ticket must agree on what would do. What has left the driver's list is wanted as before: whoever
  // sees it come back first is to know whose turn it is.
  void want(std::vector<std::size_t> units) {
    choice_.set_eligible(std::move(units));
    std::vector<std::string> keys = keys_of(site_, choice_.eligible());
    const auto is_wanted = [&](const std::string& key) {
      return std::ranges::find(keys, key) != keys.end() || (!is_listed(key) && !out_of_reach_.contains(key));
    };
    std::erase_if(wanted_, [&](const std::string& key) { return !is_wanted(key); });
    wanted_.insert(keys.begin(), keys.end());
    ticket_->want({wanted_.begin(), wanted_.end()});
  }

  bool is_listed(const std::string& key) const { return model::index_of(key, site_.observer.units()).has_value(); }

  void look() {
    look_at_units();
    select_again();
  }

  // At those units' GPUs; at all of them when none are named.
  void look_at_units(const std::vector<std::size_t>& units = {}) {
    port::Question question = question_for(request_);
    if (by_load_) question.purpose = port::Purpose::show;
    if (units.empty()) looked_ = site_.clock.steady();
    for (std::size_t unit : units)
      question.only.push_back(site_.observer.units()[unit].gpu_of(site_.observer.snapshot().machine).key());
    site_.observer.look(site_.patience, question);
    choice_.look_again();
  }

  // A unit may become readable while we wait. What would no longer do, or not do at all now, may again: also where the driver
  // does not answer. Then the ticket stays as it is, and so does who has it in line: nobody sleeps here.
  void select_again() {
    out_of_reach_.clear();                       // somebody may have made it claimable
    bool lost = false;
    try {
      see_what_was_taken_around();
      const model::Request request = of_those_there(lasting_, site_);
      plan::Selection selection = select(site_, request, within_, allotted_);
      lost = within_ && is_lost(site_, selection, *within_);
      choice_.look_again();
      if (choice_.avoids_any()) avoid_parts_of_claimed();
      want(reached(eligible_units(site_, request, std::move(selection), within_)));
      lacks_.clear();
    } catch (const Error& error) {
      if (!may_come_back(error) || lost) throw;
      choice_.look_again();
      tell_lack(error);
    }
  }

  void rest(Millis pause) {
    if (any_ready(options_.cancel, pause)) wait_interrupted();
  }

  void look_unless_since(Millis ago) {
    if (site_.clock.steady() > looked_ + ago) look();
  }

  enum class Woken { by_something, by_clock, by_deadline };

  // Sleeps until something happens. Looks at what only the driver can see.
  Woken sleep(const model::Wait& wait, std::optional<SteadyTime> until) {
    if (until && deadline_) until = std::min(*until, *deadline_);
    std::vector<Fd> ends;
    std::vector<int> also = options_.cancel;
    if (!wait.behind)
      for (pid_t pid : choice_.strangers(wait.observe))
        if (Fd end = open_pidfd(pid)) { also.push_back(end.get()); ends.push_back(std::move(end)); }
    const bool head_observes = !wait.behind && wait.observe.any();
    switch (ticket_->sleep(also, until)) {
      case port::Wake::deadline: return Woken::by_deadline;
      case port::Wake::other_fd:
        heed_interruption(options_);
        look();                                 // a stranger has ended
        break;
      case port::Wake::again:
        if (head_observes) look();
        else look_unless_since(wait.passes_by_look || !wait.idle.empty() || choice_.is_unsure() ? a_moment_ago : long_ago);
        return Woken::by_clock;
      case port::Wake::turn:
      case port::Wake::release:
      case port::Wake::nudge:
        look_unless_since(wait.passes_by_look ? Millis{0} : a_moment_ago);   // what others can have is decided by it, too
        break;
    }
    return Woken::by_something;
  }

  // After the lock: "" when the units are ours to use, else what keeps them. Who trusts claims asks once more only whether
  // they have become sick while he waited.
  std::string still_used(const port::Claim& claim, bool waited) {
    if (request_.trust_claims && !waited) return claimed_as_a_whole();
    const SteadyTime bound = site_.clock.steady() + teardown_bound;
    choice_.trust_next_look();
    for (;;) {
      look_at_units(choice_.chosen());
      if (const std::string gone = not_listed(claim.keys()); !gone.empty())
        return fmt::format("GPU {} was given back: the driver no longer lists it", gone);
      if (std::string whole = claimed_as_a_whole(); !whole.empty()) return whole;
      std::string trouble;
      std::vector<pid_t> strangers;
      for (std::size_t unit : choice_.chosen()) {
        const plan::Verdict& verdict = choice_.verdict(unit);
        const std::string too_full = choice_.has_sharers(unit) ? "" : too_full_to_share(unit);
        if (verdict.standing == plan::Standing::free && too_full.empty()) continue;
        if (choice_.has_sharers(unit) && verdict.standing != plan::Standing::sick) continue;
        trouble = fmt::format("GPU {} was given back: {}", site_.observer.units()[unit].label,
                              too_full.empty() ? verdict.why : too_full);
        strangers.insert(strangers.end(), verdict.wait_for.begin(), verdict.wait_for.end());
      }
      if (trouble.empty()) return {};
      const auto left = std::chrono::duration_cast<Millis>(bound - site_.clock.steady());
      if (left <= Millis{0} || strangers.empty()) return trouble;
      wait_for_end(strangers, options_.cancel, std::min(left, Millis{200}));
    }
  }

  // By root, from us or from who has claimed it around; "" where he has not.
  std::string taken_since(const port::Claim& claim) {
    const std::vector<std::string> taken = taken_back(claim, site_.observer.units(), choice_.chosen());
    if (!taken.empty()) return taken.front();
    see_what_was_taken_around();
    const auto& units = site_.observer.units();
    for (const std::size_t unit : choice_.chosen())
      if (within_ && within_->has_lost(units[unit].key)) return taken_back_text("GPU " + units[unit].label);
    return "";
  }

  void see_what_was_taken_around() {
    if (!within_) return;
    std::optional<OuterClaim> now = outer_claim(site_.store, site_.environment);
    if (now && now->id == within_->id) within_->taken = std::move(now->taken);
  }

  // A GPU that has been partitioned while somebody had all of it: its instances are not chosen as long. The one look at the
  // claims that tells it is made when we have one, or wait.
  std::string claimed_as_a_whole() {
    const auto is_instance = [this](std::size_t unit) { return site_.observer.units()[unit].instance.has_value(); };
    if (within_ || std::ranges::none_of(choice_.chosen(), is_instance)) return "";
    const std::map<std::string, std::string> parts = avoid_parts_of_claimed();
    for (const std::size_t chosen : choice_.chosen()) {
      const model::Unit& unit = site_.observer.units()[chosen];
      if (const auto part = parts.find(unit.key); part != parts.end())
        return fmt::format("GPU {} was given back: {}", unit.label, part->second);
    }
    return "";
  }

  // All of them, by key, with why they are not to be had.
  std::map<std::string, std::string> avoid_parts_of_claimed() {
    const auto parts = parts_of_claimed(site_.observer.units(), site_.observer.snapshot().machine, store_);
    choice_.avoid(parts);
    return parts;
  }

  // The first of them.
  std::string not_listed(const std::vector<std::string>& keys) const {
    const auto gone = std::ranges::find_if(keys, [this](const std::string& key) { return !is_listed(key); });
    return gone == keys.end() ? "" : *gone;
  }

  // What was in use when we decided may have been its last owner's.
  std::string too_full_to_share(std::size_t unit) const {
    const auto total = site_.observer.units()[unit].memory_mib_of(site_.observer.snapshot().machine);
    if (!request_.share || request_.trust_claims || !total) return "";
    const std::uint64_t left = *total - std::min(*total, choice_.verdict(unit).unclaimed_mib);
    if (left >= request_.memory_mib.value_or(0) + plan::share_context_mib) return "";
    return fmt::format("only {} of its memory are free", format_mib(left));
  }

  Acquired hand_over(port::Claim claim, std::shared_ptr<void> alone) {
    Acquired acquired{std::move(claim), site_.observer.units(), choice_.chosen(), choice_.explain(), std::move(alone),
                      nullptr, std::nullopt};
    acquired.passed = std::move(passed_);
    acquired.ends_by = ends_by_;
    acquired.would_do = wanted_;
    return acquired;
  }

  // The caller has been told where it stood (options.waiting) and can say why.
  [[noreturn]] void give_up() {
    if (request_.wait == Seconds{0}) throw Error(ErrorCode::busy, request_.describe() + ": not free now");
    throw Error(ErrorCode::timed_out,
                fmt::format("{}: not free after {}", request_.describe(), format_duration(*request_.wait)));
  }

  Site& site_;
  port::ClaimStore& store_;
  const model::Request request_, lasting_;     // as it was asked; the same at every look
  const AcquireOptions& options_;
  OuterClaim* within_;
  const std::optional<Allotment> allotted_;   // at the first look
  std::string lacks_;                    // what keeps the request from being met at all, as it was told
  Choice choice_;
  SteadyTime looked_ = site_.clock.steady();   // at all units
  OffBy off_by_ = OffBy::nothing;
  std::optional<SteadyTime> doubt_began_;
  std::optional<model::Wait> waited_;    // as it was decided last; present once it could have been met
  bool by_load_ = false;                 // looks tell how much is done on them, too
  std::set<std::string> wanted_;         // keys of the units in our ticket
  std::set<std::string> out_of_reach_;   // of those that could not be claimed when it was tried
  std::vector<model::InLine> passed_;    // by the last Take that did
  std::optional<WallTime> ends_by_;
  std::optional<SteadyTime> deadline_;
  std::unique_ptr<port::Ticket> ticket_;
};

}  // namespace

Acquired acquire(Site& site, const model::Request& asked, const AcquireOptions& options) {
  site.observer.look(site.patience, question_for(asked));
  heed_interruption(options);                    // who tries again and again may never come to sleep
  if (options.looked) options.looked(site.observer.snapshot());
  if (asked.gpus == 0) {
    Acquired none;
    none.claim = port::Claim(options.id.empty() ? fresh_claim_id() : options.id);
    none.units = site.observer.units();
    return none;
  }
  std::vector<OuterClaim> around = claims_around(site.store, site.environment);
  OuterClaim* outer = around.empty() ? nullptr : &around.front();
  port::ClaimStore& store = outer ? *outer->store : site.store;
  std::optional<SteadyTime> deadline;
  if (asked.wait) deadline = site.clock.steady() + *asked.wait;
  Wish wish = wish_for(site, asked, options, outer, deadline);
  std::unique_ptr<port::Ticket> ticket;
  if (!wish.late.empty()) ticket = await_driver(site, store, asked, options, outer, wish);
  const std::optional<Allotment> allotment = wish.allotted;
  const model::Request lasting = wish.lasting;
  Acquired acquired;
  if (outer && reuses(outer, wish.request) && !wish.lack) acquired = reuse(site, *outer, std::move(wish.eligible));
  else acquired = Acquisition(site, store, std::move(wish), options, outer, std::move(ticket)).finish();
  acquired.allotted = allotment;
  acquired.chosen = numbered(site, lasting, outer != nullptr, std::move(acquired.chosen));
  if (!outer) return acquired;
  acquired.share_mib = outer->share_mib;
  // Not while waiting: that keeps nobody's units.
  const auto caution = [&](const std::string& text) {
    acquired.cautions.push_back(text);
    if (options.caution) options.caution(text);
  };
  if (options.keeps_around) keep_around(site, around, acquired.claim, caution);
  else watch_around(site, around, acquired.claim);
  refuse_taken_back(acquired);                   // from who has claimed it around
  if (acquired.claim.is_all_of_another()) return acquired;
  acquired.claim.lies_within(outer->id);
  acquired.inner_store = std::move(outer->store);
  return acquired;
}

std::vector<std::string> usable_keys(const Site& site, const model::Request& request) {
  std::vector<std::string> keys;
  for (std::size_t unit : select(site, request, nullptr).units) keys.push_back(site.observer.units()[unit].key);
  return keys;
}

std::string fresh_claim_id() {
  return fmt::format("{:016x}", random_bits());
}

}  // namespace thole::app
