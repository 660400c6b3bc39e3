// How this works. One look at the machine gives the units a request could ever use. The claim store then shows the queue to
// plan::decide, through a rule made here that knows what the look saw. After a Take the units are looked at once
// more, now that nobody else can claim them: a process of the last owner still tearing down is waited for, a stranger's
// means give back, keep the place in line and say so. Between steps everything sleeps in the store.
#include "app/acquire.hpp"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "app/outer_claim.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/free.hpp"
#include "plan/place.hpp"
#include "plan/turn.hpp"

namespace thole::app {

namespace {

constexpr Millis teardown_bound{2'000};   // for a previous owner's process to leave a unit that was just released

// The rule shown to the store: binds one request to what was seen.
class Choice {
 public:
  Choice(const Site& site, const model::Request& request) : site_(site), request_(request) { look_again(); }

  // Recomputes the verdicts after observer.look().
  void look_again() {
    const auto& snapshot = site_.observer.snapshot();
    const auto& units = site_.observer.units();
    verdicts_.clear();
    for (const model::Unit& unit : units)
      verdicts_.push_back(plan::judge(unit, snapshot, request_, site_.policy, {}, my_user()));
  }

  // The chosen units are locked by us: what the next look sees there is not an owner's.
  void trust_next_look() {
    for (std::size_t slot = 0; slot < unit_of_.size(); ++slot)
      if (unit_of_[slot] && std::find(chosen_.begin(), chosen_.end(), *unit_of_[slot]) != chosen_.end()) was_claimed_.reset(slot);
  }

  // A chosen unit that has other sharers: the budgets admitted us, the use that is seen there is theirs.
  bool has_sharers(std::size_t unit) const { return std::binary_search(beside_.begin(), beside_.end(), unit); }

  void set_eligible(std::vector<std::size_t> eligible) { eligible_ = std::move(eligible); }
  const std::vector<std::size_t>& eligible() const { return eligible_; }
  const plan::Verdict& verdict(std::size_t unit) const { return verdicts_[unit]; }
  const std::vector<std::size_t>& chosen() const { return chosen_; }
  const std::string& explain() const { return explain_; }

  model::Decision operator()(const model::QueueView& queue, std::optional<std::uint64_t> mine, WallTime now) {
    map_slots(queue);
    plan::Wants wants;
    for (std::size_t slot = 0; slot < unit_of_.size(); ++slot)
      if (unit_of_[slot] && std::binary_search(eligible_.begin(), eligible_.end(), *unit_of_[slot])) wants.eligible.set(slot);
    wants.count = request_.gpus;
    wants.uid = site_.uid;
    wants.shared = request_.share;
    wants.share_with_any = request_.share_with == model::ShareWith::any;
    wants.trust_claims = request_.trust_claims;
    wants.memory_mib = request_.share ? request_.memory_mib.value_or(0) : 0;
    wants.time = request_.time;
    fill_states(queue);
    for (std::size_t slot = 0; slot < queue.slots.size(); ++slot)
      if (!queue.slots[slot].holders.empty()) was_claimed_.set(slot);
    return plan::decide(queue, mine, wants, states_,
                        [&](const model::SlotSet& free) { return choose(queue, free); }, now);
  }

  // Units among the eligible that stand in the way by unclaimed use only.
  std::vector<pid_t> strangers(const model::SlotSet& slots) const {
    std::vector<pid_t> pids;
    for (std::size_t slot = 0; slot < unit_of_.size(); ++slot)
      if (slots.test(slot) && unit_of_[slot])
        pids.insert(pids.end(), verdicts_[*unit_of_[slot]].wait_for.begin(), verdicts_[*unit_of_[slot]].wait_for.end());
    return pids;
  }

 private:
  std::string my_user() const { return request_.beside == model::Beside::mine ? site_.user_name(site_.uid) : std::string(); }

  void map_slots(const model::QueueView& queue) {
    const auto& units = site_.observer.units();
    unit_of_.assign(queue.slots.size(), std::nullopt);
    for (std::size_t slot = 0; slot < queue.slots.size(); ++slot)
      for (std::size_t unit = 0; unit < units.size() && !queue.slots[slot].key.empty(); ++unit)
        if (units[unit].key == queue.slots[slot].key) { unit_of_[slot] = unit; break; }
  }

  // A claimed unit is judged by its health alone (its use is its owner's), and so is one that was claimed at the last look:
  // what was seen there was its owner's too. The look after the lock tells.
  void fill_states(const model::QueueView& queue) {
    const auto& units = site_.observer.units();
    const auto& machine = site_.observer.snapshot().machine;
    states_.assign(queue.slots.size(), plan::SlotState{});
    for (std::size_t slot = 0; slot < queue.slots.size(); ++slot) {
      if (!unit_of_[slot]) continue;
      const model::Unit& unit = units[*unit_of_[slot]];
      plan::SlotState& state = states_[slot];
      const bool claimed = !queue.slots[slot].holders.empty() || was_claimed_.test(slot);
      const plan::Verdict& seen = verdicts_[*unit_of_[slot]];
      state.usable = claimed ? seen.standing != plan::Standing::sick : seen.standing == plan::Standing::free;
      state.memory_mib = unit.memory_mib_of(machine).value_or(0);
      if (request_.share) state.unclaimed_mib = unclaimed_beside(unit, queue.slots[slot], seen);
    }
  }

  // Memory in use on a shared unit that does not belong to its sharers, told apart by user.
  std::uint64_t unclaimed_beside(const model::Unit& unit, const model::SlotView& slot, const plan::Verdict& seen) const {
    if (slot.holders.empty()) return seen.unclaimed_mib;
    const auto& use = unit.use_of(site_.observer.snapshot().machine);
    if (!use.processes.known()) return 0;
    std::vector<pid_t> own;
    for (const model::GpuProcess& process : *use.processes)
      if (std::any_of(slot.holders.begin(), slot.holders.end(),
                      [&](const model::SlotHolder& holder) { return site_.user_name(holder.uid) == process.user; }))
        own.push_back(process.pid);
    return plan::judge(unit, site_.observer.snapshot(), request_, site_.policy, own, my_user()).unclaimed_mib;
  }

  std::optional<std::vector<unsigned>> choose(const model::QueueView& queue, const model::SlotSet& free) {
    if (request_.share) {                       // sharers gather on units that are shared already
      model::SlotSet begun;
      for (std::size_t slot = 0; slot < queue.slots.size(); ++slot)
        if (free.test(slot) && !queue.slots[slot].holders.empty()) begun.set(slot);
      if (begun.count() >= request_.gpus)
        if (auto slots = choose_among(queue, begun)) return slots;
    }
    return choose_among(queue, free);
  }

  std::optional<std::vector<unsigned>> choose_among(const model::QueueView& queue, const model::SlotSet& free) {
    std::vector<plan::Candidate> candidates;
    for (std::size_t slot = 0; slot < unit_of_.size(); ++slot)
      if (free.test(slot) && unit_of_[slot]) candidates.push_back({*unit_of_[slot], verdicts_[*unit_of_[slot]].graphics});
    auto placement = plan::place(request_, site_.observer.snapshot(), site_.observer.units(), candidates);
    if (!placement) return std::nullopt;
    std::vector<unsigned> slots;
    for (std::size_t unit : placement->units)
      for (std::size_t slot = 0; slot < unit_of_.size(); ++slot)
        if (unit_of_[slot] == unit) slots.push_back(static_cast<unsigned>(slot));
    chosen_ = placement->units;
    explain_ = placement->explain;
    beside_.clear();
    for (std::size_t slot = 0; slot < unit_of_.size(); ++slot)
      if (unit_of_[slot] && !queue.slots[slot].holders.empty()) beside_.push_back(*unit_of_[slot]);
    std::sort(beside_.begin(), beside_.end());
    return slots;
  }

  const Site& site_;
  const model::Request& request_;
  std::vector<plan::Verdict> verdicts_;                  // by unit
  std::vector<std::size_t> eligible_;                    // units, ascending
  std::vector<std::optional<std::size_t>> unit_of_;      // by slot, of the last queue seen
  std::vector<plan::SlotState> states_;                  // by slot
  model::SlotSet was_claimed_;                           // slots seen claimed, and not looked at since under our own lock
  std::vector<std::size_t> beside_;                      // units with holders when we chose, ascending
  std::vector<std::size_t> chosen_;
  std::string explain_;
};

// The units that would do: those of the outer claim, or what the outer allotment leaves.
plan::Selection select(const Site& site, const model::Request& request, const std::vector<std::string>* within) {
  const auto& snapshot = site.observer.snapshot();
  const auto& units = site.observer.units();
  plan::Outer outer = plan::outer_allotment(snapshot, units, site.environment);
  if (within) {
    outer.named_by = "THOLE_CLAIM";
    for (std::size_t i = 0; i < units.size(); ++i)
      outer.visible[i] = std::find(within->begin(), within->end(), units[i].key) != within->end();
  }
  return plan::eligible(request, snapshot, units, outer);
}

// The request by the units it takes: a partitioned GPU named as a whole counts as all its instances.
model::Request settled(const Site& site, model::Request request, const std::vector<std::string>* within) {
  request.gpus = select(site, request, within).count;
  return request;
}

// Eligible units of the request; refuses at once what sickness makes impossible, naming the sick.
std::vector<std::size_t> eligible_units(const Site& site, const model::Request& request, const std::vector<std::string>* within) {
  const auto& snapshot = site.observer.snapshot();
  const auto& units = site.observer.units();
  std::vector<std::size_t> eligible = select(site, request, within).units;
  std::string sick;
  std::size_t healthy = 0;
  for (std::size_t unit : eligible) {
    const model::Gpu& gpu = units[unit].gpu_of(snapshot.machine);
    if (gpu.health == model::Health::ok || request.trust_claims) ++healthy;
    else sick += fmt::format("\n  GPU {}: {}{}{}", units[unit].label, model::to_string(gpu.health),
                             gpu.health_reason.empty() ? "" : ", ", gpu.health_reason);
  }
  if (healthy < request.gpus)
    throw Error(ErrorCode::unavailable, fmt::format("{} asked for, {} of {} that would do can be used{}", request.describe(), healthy,
                                                    eligible.size(), sick))
        .hint("thole doctor");
  std::sort(eligible.begin(), eligible.end());
  return eligible;
}

port::Entry entry_for(const Site& site, const model::Request& request, const AcquireOptions& options,
                      const std::vector<std::size_t>& eligible) {
  port::Entry entry;
  entry.id = options.id.empty() ? fresh_claim_id() : options.id;
  for (std::size_t unit : eligible) entry.eligible.push_back(site.observer.units()[unit].key);
  entry.count = request.gpus;
  entry.shared = request.share;
  entry.share_with_any = request.share_with == model::ShareWith::any;
  entry.trust_claims = request.trust_claims;
  entry.memory_mib = request.share ? request.memory_mib.value_or(0) : 0;
  if (options.enforced) entry.time = request.time;
  entry.command = options.command;
  return entry;
}

[[noreturn]] void interrupted() { throw Error(ErrorCode::interrupted, "the wait was interrupted"); }

// True when one of the descriptors is readable or hung up within the time.
bool any_ready(const std::vector<int>& fds, Millis wait) {
  std::vector<pollfd> polls;
  for (int fd : fds) polls.push_back({fd, POLLIN, 0});
  const int ready = ::poll(polls.data(), polls.size(), static_cast<int>(wait.count()));
  return ready > 0;
}

// Waits until one of the strangers ends or the bound passes; the caller's cancel ends it by Error.
void wait_for_end(const std::vector<pid_t>& strangers, const std::vector<int>& cancel, Millis bound) {
  std::vector<Fd> ends;
  std::vector<int> fds = cancel;
  for (pid_t pid : strangers)
    if (Fd end = open_pidfd(pid)) { fds.push_back(end.get()); ends.push_back(std::move(end)); }
  if (any_ready(fds, bound) && !cancel.empty() && any_ready(cancel, Millis{0})) interrupted();
}

// One acquisition from a given store: the loop of step, check and sleep.
class Acquisition {
 public:
  Acquisition(Site& site, port::ClaimStore& store, const model::Request& request, const AcquireOptions& options,
              const std::vector<std::string>* within)
      : site_(site), request_(request), options_(options), within_(within), choice_(site, request) {
    choice_.set_eligible(eligible_units(site, request, within));
    place_ = store.enter(entry_for(site, request, options, choice_.eligible()));
    if (request.wait) deadline_ = site.clock.steady() + *request.wait;
  }

  Acquired finish() {
    bool looked_again = false;
    for (;;) {
      std::optional<port::Claim> claim = place_->step([&](const auto& queue, auto mine, auto now) { return choice_(queue, mine, now); });
      if (claim) {
        if (auto trouble = still_used(); trouble.empty()) return hand_over(std::move(*claim));
        else if (options_.caution) options_.caution(trouble);
        claim.reset();                          // give back; the place in line is kept
        continue;
      }
      const model::Decision& decision = place_->decision();
      if (const auto* refuse = std::get_if<model::Refuse>(&decision))
        throw Error(refuse->usage ? ErrorCode::usage : ErrorCode::unavailable, refuse->why);
      const auto& wait = std::get<model::Wait>(decision);
      if (wait.observe.any() && !looked_again) {  // what was seen may be an owner's who has left since
        looked_again = true;
        look();
        continue;
      }
      if (options_.waiting) options_.waiting({wait, site_.observer.snapshot(), site_.observer.units()});
      if (request_.wait == Seconds{0}) give_up();
      sleep(wait);
    }
  }

 private:
  void look() {
    site_.observer.look(site_.patience);
    choice_.look_again();
    choice_.set_eligible(eligible_units(site_, request_, within_));
  }

  void sleep(const model::Wait& wait) {
    std::vector<Fd> ends;
    std::vector<int> also = options_.cancel;
    if (!wait.behind)
      for (pid_t pid : choice_.strangers(wait.observe))
        if (Fd end = open_pidfd(pid)) { also.push_back(end.get()); ends.push_back(std::move(end)); }
    const bool head_observes = !wait.behind && wait.observe.any();
    switch (place_->sleep(also, deadline_)) {
      case port::Wake::deadline: give_up();
      case port::Wake::other_fd:
        if (!options_.cancel.empty() && any_ready(options_.cancel, Millis{0})) interrupted();
        look();                                 // a stranger has ended
        break;
      case port::Wake::again:
        if (head_observes) look();              // use that only the driver can see
        break;
      case port::Wake::turn:
      case port::Wake::release:
      case port::Wake::nudge: break;
    }
  }

  // After the lock: "" when the units are ours to use, else what keeps them.
  std::string still_used() {
    if (request_.trust_claims) return {};
    const SteadyTime bound = site_.clock.steady() + teardown_bound;
    choice_.trust_next_look();
    for (;;) {
      look();
      std::string trouble;
      std::vector<pid_t> strangers;
      for (std::size_t unit : choice_.chosen()) {
        const plan::Verdict& verdict = choice_.verdict(unit);
        if (verdict.standing == plan::Standing::free) continue;
        if (choice_.has_sharers(unit) && verdict.standing != plan::Standing::sick) continue;
        trouble = fmt::format("GPU {} was given back: {}", site_.observer.units()[unit].label, verdict.why);
        strangers.insert(strangers.end(), verdict.wait_for.begin(), verdict.wait_for.end());
      }
      if (trouble.empty()) return {};
      const auto left = std::chrono::duration_cast<Millis>(bound - site_.clock.steady());
      if (left <= Millis{0} || strangers.empty()) return trouble;
      wait_for_end(strangers, options_.cancel, std::min(left, Millis{200}));
    }
  }

  Acquired hand_over(port::Claim claim) {
    return {std::move(claim), site_.observer.units(), choice_.chosen(), choice_.explain(), false, nullptr};
  }

  // The caller has been told where it stood (options.waiting) and can say why.
  [[noreturn]] void give_up() {
    if (request_.wait == Seconds{0}) throw Error(ErrorCode::busy, request_.describe() + ": not free now");
    throw Error(ErrorCode::timed_out, fmt::format("{}: not free after {}", request_.describe(), format_duration(std::chrono::ceil<Seconds>(*request_.wait))));
  }

  Site& site_;
  const model::Request& request_;
  const AcquireOptions& options_;
  const std::vector<std::string>* within_;
  Choice choice_;
  std::unique_ptr<port::Place> place_;
  std::optional<SteadyTime> deadline_;
};

// The whole of the outer claim, without a lock of our own: its holder holds.
Acquired reuse(const Site& site, const model::Request& request, const OuterClaim& outer) {
  Acquired whole;
  whole.claim.id = outer.id;
  whole.claim.keys = outer.keys;
  whole.units = site.observer.units();
  whole.chosen = eligible_units(site, request, &outer.keys);
  whole.explain = fmt::format("all of claim {}, which this runs inside", outer.id);
  whole.reused = true;
  return whole;
}

}  // namespace

Acquired acquire(Site& site, const model::Request& asked, const AcquireOptions& options) {
  site.observer.look(site.patience);
  if (asked.gpus == 0) {
    Acquired none;
    none.claim.id = options.id.empty() ? fresh_claim_id() : options.id;
    none.units = site.observer.units();
    return none;
  }
  std::optional<OuterClaim> outer = outer_claim(site.store, site.environment, site.uid);
  const model::Request request = settled(site, asked, outer ? &outer->keys : nullptr);
  if (!outer) return Acquisition(site, site.store, request, options, nullptr).finish();
  if (request.gpus == outer->keys.size()) return reuse(site, request, *outer);
  Acquired acquired = Acquisition(site, *outer->store, request, options, &outer->keys).finish();
  acquired.claim.id = outer->id + "/" + acquired.claim.id;
  acquired.inner_store = std::move(outer->store);
  return acquired;
}

Preview preview(Site& site, const model::Request& asked) {
  site.observer.look(site.patience);
  std::optional<OuterClaim> outer = outer_claim(site.store, site.environment, site.uid);
  const model::Request request = settled(site, asked, outer ? &outer->keys : nullptr);
  Preview seen;
  seen.units = site.observer.units();
  Choice choice(site, request);
  choice.set_eligible(eligible_units(site, request, outer ? &outer->keys : nullptr));
  if (request.gpus == 0) { seen.decision = model::Take{}; return seen; }
  if (outer && request.gpus == outer->keys.size()) {
    Acquired whole = reuse(site, request, *outer);
    seen.decision = model::Take{};
    seen.chosen = whole.chosen;
    seen.explain = whole.explain;
    return seen;
  }
  // A rule that decides and then refuses leaves no trace in the queue.
  port::ClaimStore& store = outer ? *outer->store : site.store;
  auto place = store.enter(entry_for(site, request, {}, choice.eligible()));
  (void)place->step([&](const model::QueueView& queue, std::optional<std::uint64_t> mine, WallTime now) -> model::Decision {
    seen.decision = choice(queue, mine, now);
    return model::Refuse{false, "only looking"};
  });
  if (std::holds_alternative<model::Take>(seen.decision)) {
    seen.chosen = choice.chosen();
    seen.explain = choice.explain();
  }
  return seen;
}

plan::Variables variables(const Site& site, const Acquired& acquired, const model::Request& request, plan::Ids ids) {
  const model::Snapshot& snapshot = site.observer.snapshot();
  // Indices are certain when every GPU of the machine answered and none is partitioned: the driver then numbers what we number.
  const auto& gpus = snapshot.machine.gpus;
  const bool certain = std::all_of(gpus.begin(), gpus.end(), [](const model::Gpu& gpu) {
    return gpu.health == model::Health::ok && !gpu.mig_mode && gpu.mig.empty();
  });
  return plan::environment(acquired.chosen, acquired.units, snapshot, request, ids, certain, acquired.claim.id);
}

std::string fresh_claim_id() {
  std::uint64_t bits = 0;
  while (::getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits)) {}
  return fmt::format("{:016x}", bits);
}

}  // namespace thole::app
