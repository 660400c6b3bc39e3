// One pass of a waiter, from alloc to claim or sleep. The overview is in fifo_store.hpp.
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "base/odd_pause.hpp"
#include "base/random.hpp"
#include "base/stream.hpp"
#include "base/want.hpp"
#include "host/claims/fifo_pass.hpp"
#include "host/claims/safe_gpu_lock.hpp"

namespace thole::host {
namespace {

constexpr Millis look_again_soonest{1500}, look_again_latest{2000};   // by myself; less than plan::Grace::patience
constexpr Millis restless_look_after{10};
constexpr const char* not_waited_for =        // anybody can keep it for ever, so it must not stop a claim
    "safe-gpu's users have kept their lock for 3 s, so it is not waited for: claims take the last GPUs that would do, its "
    "users the first";
constexpr Millis least_waited{5};             // for safe-gpu's users, each time
constexpr unsigned most_asks = 64 + model::max_slots;
constexpr unsigned most_given_back = 3;   // claims of a sharer's in one step

SteadyTime steady_now() { return std::chrono::steady_clock::now(); }

// So that two who keep finding each other do not do so for ever.
void pause_at_random() {
  const timespec pause{0, static_cast<long>(random_bits() % 10'000'000)};
  ::nanosleep(&pause, nullptr);
}

}  // namespace

FifoTicket::FifoTicket(FifoStore& store, port::Entry entry)
    : store_(store), maker_(store.me().pid), entry_(std::move(entry)),
      alloc_(entry_.only_looks ? AllocBudget(store.options().look_patience)
                               : AllocBudget(store.options().patience, store.alloc_tried_only_until())) {}

void FifoTicket::caution(const std::string& text) {
  if (store_.caution(text) && entry_.caution) entry_.caution(text);
}

FifoTicket::~FifoTicket() {
  if (!turn_ || static_cast<std::uint32_t>(::getpid()) != maker_) return;
  try {
    AllocBudget short_one(store_.options().look_patience);
    Pass pass(store_, short_one, {}, {});
    if (!pass.section.ordered()) return;
    pass.queue.read();
    leave(pass);
  } catch (const Error&) {
    // Then the ticket stays as one of the dead, which the next who meets it drops.
  }
}

std::optional<port::Claim> FifoTicket::step(const model::Rule& rule) {
  pass_on();
  notes_.reset();
  // Woken by an end I am usually the next and need no notes; looking by myself, or called for, I may have to plan with ends.
  if (entry_.shared || (turn_ && (last_wake_ == port::Wake::again || last_wake_ == port::Wake::nudge))) collect_notes();
  Outcome outcome = Outcome::done;
  not_shared_.reset();
  unsigned given_back = 0;
  for (unsigned restart = 0; restart < 10; ++restart) {
    std::optional<port::Claim> claim;
    outcome = try_step(rule, claim);
    if (!claim) pass_on();   // never under alloc: whoever wakes would only wait for it
    if (outcome == Outcome::unheard) {
      hear_line();
    } else if (outcome == Outcome::uninformed) {
      collect_notes();
    } else if (outcome == Outcome::done && !claim && ask_for_words()) {
      // Somebody who stood before me has no word for it.
    } else if (outcome == Outcome::moved) {
      watches_ = {};
      if (store_.reopen()) {
        turn_.reset();
        first_ticket_.reset();   // another directory, another line
        heard_line_.reset();
      }
      if (notes_) collect_notes();
    } else if (claim && entry_.shared && !still_admitted(rule)) {
      claim.reset();
      pass_on();
      if (++given_back >= most_given_back)
        for (const Shared& shared : shared_) not_shared_.set(shared.slot);
      pause_at_random();
      collect_notes();
    } else {
      // Won by the clock alone? Then neither a watch nor the mailbox tells of what made it possible. (HUP may come some us
      // after the unlock, and the clock may have run out just as it came.)
      bool by_clock = claim && last_wake_ == port::Wake::again && !excused_;
      if (by_clock && !(spent_ && is_readable(spent_->fd.get())) && !watches_.any_event(Millis(20))) ++progress_by_timeout_;
      if (claim) say_who_keeps_berths();
      return claim;
    }
  }
  if (outcome == Outcome::moved)
    throw Error(ErrorCode::unavailable, "the state directory keeps being replaced").about(store_.about().directory);
  decision_ = model::Wait{};   // others come and go: again soon
  restless_ = true;
  return std::nullopt;
}

void FifoTicket::collect_notes() {
  notes_.emplace(store_.notes());
  notes_->collect();
}

FifoTicket::Outcome FifoTicket::try_step(const model::Rule& rule, std::optional<port::Claim>& claim) {
  const auto say = [this](const std::string& text) { caution(text); };
  // safe-gpu's lock last, and only tried: who waits for one of the two, or is stopped there, keeps the other from nobody.
  std::optional<Pass> had;
  std::optional<SafeGpuLock> neighbours;
  for (;;) {
    had.emplace(store_, alloc_, say, entry_.cancel);
    const SteadyTime begin = steady_now();
    const Millis left = neighbours_patience_.left(begin);
    neighbours.emplace(store_.options().neighbours, say);
    if (!neighbours->kept() || left < least_waited) break;
    neighbours.reset();
    had.reset();
    wait_for_safe_gpu(store_.options().neighbours, left, say, entry_.cancel);
    neighbours_patience_.spend(std::max(least_waited, std::chrono::ceil<Millis>(steady_now() - begin)));
  }
  Pass& pass = *had;
  SteadyTime& until = store_.alloc_tried_only_until();
  if (!entry_.only_looks) until = std::max(until, alloc_.tried_only_until());
  if (neighbours->kept()) caution(not_waited_for);
  pass.view.neighbours_choose = neighbours->kept();
  if (store_.me().pid != maker_)
    throw Error(ErrorCode::internal, "a place in line cannot be used by a child of its process");
  pass.nodes.refresh_slots();
  wants_ = {entry_, store_.slots_of(entry_), store_.me().uid};
  restless_ = false;
  return pass.section.ordered() ? step_in_order(pass, rule, claim) : step_without_order(pass, rule, claim);
}

FifoTicket::Outcome FifoTicket::step_in_order(Pass& pass, const model::Rule& rule, std::optional<port::Claim>& claim) {
  look_at_queue(pass);
  for (unsigned ask = 0; ask < most_asks; ++ask) {
    show_queue(pass);
    decision_ = rule(pass.view, turn_ ? std::optional(turn_->ticket.view.number) : std::nullopt, wants_, pass.now);
    if (must_be_informed(pass)) return Outcome::uninformed;
    Outcome outcome = Outcome::done;
    if (auto* decided = std::get_if<model::Take>(&decision_)) outcome = take(pass, model::Take(*decided), claim);
    else if (auto* waiting = std::get_if<model::Wait>(&decision_)) outcome = wait(pass, *waiting);
    else leave(pass);
    if (outcome != Outcome::again) {
      pass.who.write();
      return outcome;
    }
    excused_ = true;   // it has changed while I looked
  }
  decision_ = model::Wait{};
  restless_ = true;
  return Outcome::done;
}

namespace {
std::string not_written(int why) {
  const std::string limit = hint_of(Error(ErrorCode::unavailable, "").because(why));
  return "waiting without order: " + (limit.empty() ? "the disk is full" : limit);
}

std::string not_said(int why) {
  const std::string limit = hint_of(Error(ErrorCode::unavailable, "").because(why));
  return "others may go before this wait: no note can be made of it" + (limit.empty() ? "" : ": " + limit);
}
}  // namespace

void FifoTicket::look_at_queue(Pass& pass) {
  pass.queue.read();
  if (turn_) {
    turn_->ticket.view.eligible = wants_.eligible;
    const WrittenTicket* mine = pass.at(turn_->ticket.index);
    const bool same = mine && says_the_same(*mine, turn_->ticket);
    store_.say(turn_->word, turn_->ticket);   // in which my wish may have changed, or which init has deleted
    // Somebody has overwritten my ticket: it goes back into its record, with its number.
    if (!same && !pass.queue.write(turn_->ticket)) caution(not_written(errno));
    excused_ = excused_ || !same;
  }
  pass.wanted = wants_.eligible;
  for (const WrittenTicket& ticket : pass.queue.tickets()) pass.wanted |= ticket.view.eligible;
  pass.who.read();
  const bool by_clock = last_wake_ == port::Wake::again;
  pass.view.by_clock = by_clock;
  // What came since the clock ran out; once I have opened a node myself, its last owner's end is no longer seen.
  if (by_clock && !excused_) excused_ = watches_.any_event(Millis(0)) || (turn_ && is_readable(turn_->fd.get()));
  // Beside whom a sharer sits is never left to a mark that anybody can wipe; nor is whether those before me could start.
  const auto mine = turn_ ? std::optional(turn_->ticket.view.number) : std::nullopt;
  pass.look.fill(pass.view.slots, pass.wanted, entry_.shared || by_clock || pass.anybody_before(mine, wants_.eligible));
  if (notes_) inform(pass, pass.view.slots);
  for (unsigned slot = 0; slot < pass.view.slots.size(); ++slot)
    if (not_shared_.test(slot) && !pass.view.slots[slot].holders.empty()) pass.view.slots[slot].holders.push_back(somebody());
}

void FifoTicket::inform(Pass& pass, std::vector<model::SlotView>& slots) {
  for (bool again = false;; again = true) {
    notes_->read(pass.nodes.slots());
    pass.look.inform(slots, *notes_, store_.me().uid, pass.now);
    // He may have made his note after I collected them; nothing would wake me when I could know of it. Now nobody makes one.
    if (again || !pass.look.any_unknown(slots) || !notes_->collect_few()) return;
  }
}

// Without notes nobody's end is known, which can only keep me waiting; to take my turn before others it must be known.
bool FifoTicket::must_be_informed(const Pass& pass) const {
  if (!pass.look.any_held()) return false;
  const bool takes = std::holds_alternative<model::Take>(decision_);
  const auto mine = turn_ ? std::optional(turn_->ticket.view.number) : std::nullopt;
  return !pass.look.informed() && (!takes || pass.anybody_before(mine, wants_.eligible));
}

// Anybody can write a ticket, and alter another's: one that its user does not say himself keeps nobody waiting. News is who was
// shown as one that may go before me, and has no word.
bool FifoTicket::ask_for_words() {
  bool news = false;
  const std::vector<bool> said = unheard_.empty() ? std::vector<bool>() : store_.vouched(unheard_);
  for (std::size_t i = 0; i < unheard_.size(); ++i) {
    const auto before = words_.find(unheard_[i].index);
    news = news || (!said[i] && (before == words_.end() || before->second.vouched));
    words_.insert_or_assign(unheard_[i].index, Word{unheard_[i], said[i]});
  }
  unheard_.clear();
  return news;
}

// Somebody may have written over the ticket of one who stands before me, just as I join: he says himself that he does. Before
// my own ticket is seen: what is said after it may be said for it.
void FifoTicket::hear_line() { heard_line_ = store_.in_line(wants_.eligible, [](uid_t) { return true; }); }

void FifoTicket::show_queue(Pass& pass) {
  pass.view.tickets.clear();
  unheard_.clear();
  const auto* behind = std::get_if<model::Wait>(&decision_);
  pass.view.ordered = true;
  pass.view.also_in_line = std::exchange(also_in_line_, {});
  for (const WrittenTicket& ticket : pass.queue.tickets()) {
    // A forged ticket with my number would be taken for mine.
    if (turn_ && ticket.view.number == turn_->ticket.view.number && ticket.index != turn_->ticket.index) continue;
    pass.view.tickets.push_back(ticket.view);
    bool& stopped = pass.view.tickets.back().stopped;   // who only looks does not meet them one by one
    if (entry_.only_looks) stopped = stands_still(ticket.pid, ticket.start);
    else if (!stopped_.empty()) stopped = is_stopped(ticket.view);
    const bool before_me = !turn_ || ticket.view.number < turn_->ticket.view.number;
    const bool declared_less = entry_.time && ticket.view.time && *ticket.view.time < *entry_.time;   // it may go first
    if (!(before_me || declared_less) || (ticket.view.eligible & wants_.eligible).none() || !store_.has_words()) continue;
    const auto word = words_.find(ticket.index);
    const bool known = word != words_.end() && says_the_same(word->second.ticket, ticket);
    // Altered without end it would be unknown without end: where somebody without a word stood, a word is heard first.
    if (word != words_.end() && !word->second.vouched) stopped = true;
    const bool is_behind = behind && behind->behind == ticket.view.number;
    const bool again = last_wake_ == port::Wake::again && (is_behind || (known && !word->second.vouched));
    if (!known || again) unheard_.push_back(ticket);
  }
}

bool FifoTicket::drop_dead(Pass& pass) {
  std::vector<unsigned> dead;
  for (const WrittenTicket& ticket : pass.queue.tickets()) {
    if (turn_ && ticket.index == turn_->ticket.index) continue;
    if (!pass.alive(ticket)) dead.push_back(ticket.index);
  }
  for (unsigned index : dead) pass.queue.wipe(index);
  return !dead.empty();
}

WrittenTicket FifoTicket::my_ticket(std::uint64_t number, unsigned index, WallTime since) const {
  WrittenTicket ticket;
  static_cast<model::Wants&>(ticket.view) = wants_;
  ticket.view.number = number;
  ticket.view.since = since;
  ticket.index = index;
  ticket.pid = store_.me().pid;
  ticket.start = store_.me().start;
  return ticket;
}

// No reader should be left: a watcher of its last owner that has not polled yet would miss that one's end, and look again after
// 2 s. Where somebody keeps readers at all of them, that is what it costs.
void FifoTicket::join(Pass& pass) {
  for (bool swept = false, read = false;; read = swept, swept = true) {
    for (unsigned index : pass.queue.empty_records()) {
      if (!read && (pass.nodes.open_turn(index, O_WRONLY, true) || errno != ENXIO)) continue;
      Fd turn = pass.nodes.open_turn(index, O_RDWR);
      if (!turn || ::flock(turn.get(), LOCK_EX | LOCK_NB) != 0) continue;
      const auto node = pass.nodes.named(turn.get(), turn_node(index));
      if (!node || !pass.nodes.is_node(*node)) continue;
      WrittenTicket ticket = first_ticket_ ? my_ticket(first_ticket_->view.number, index, first_ticket_->view.since)
                                    : my_ticket(pass.queue.next_number(), index, pass.now);
      Fd word;
      store_.say(word, ticket);   // first: who reads the one is to find the other
      if (!word && store_.has_words()) caution(not_said(errno));
      if (!pass.queue.write(ticket)) {
        caution(not_written(errno));
        return;
      }
      first_ticket_ = ticket;
      if (heard_line_) also_in_line_ = std::move(*heard_line_);
      heard_line_.emplace();
      std::erase_if(also_in_line_, [&](const model::InLine& one) { return one.first >= ticket.view.number; });
      turn_ = Turn{std::move(turn), std::move(ticket), std::move(word)};
      store_.hook("joined");
      return;
    }
    if (read) break;
    if (!swept) drop_dead(pass);
  }
  caution("all " + std::to_string(most_tickets) + " waiting places are taken: waiting without order");
}

void FifoTicket::leave(Pass& pass) {
  if (!turn_) return;
  const WrittenTicket* mine = pass.at(turn_->ticket.index);
  if (mine && mine->view.number == turn_->ticket.view.number) pass.queue.wipe(turn_->ticket.index);
  spent_ = std::move(turn_);
  turn_.reset();
}

// ---- Sleep ----

Millis FifoTicket::look_again_in() const {
  if (restless_) return restless_look_after;
  const auto* wait = std::get_if<model::Wait>(&decision_);
  return wait && wait->look_again ? std::min(*wait->look_again, look_again_latest) : look_again_latest;
}

// What strangers can make happen (a nudge; the end of a writer) is heard a number of times a second at most: each time costs a
// pass, and meanwhile neither the caller's descriptors nor his deadline nor my own look may be forgotten.
port::Wake FifoTicket::sleep(std::span<const int> also, std::optional<SteadyTime> deadline) {
  std::vector<pollfd> polled;
  for (int fd : also) polled.push_back({fd, POLLIN, 0});
  watches_.append_to(polled);
  if (turn_) polled.push_back({turn_->fd.get(), POLLIN, 0});
  SteadyTime now = steady_now();
  if (!look_due_ || last_wake_ == port::Wake::again)
    look_due_ = now + odd_pause(look_again_soonest, look_again_latest, now, turn_ ? turn_->ticket.view.number : 0);
  look_due_ = std::min(*look_due_, now + look_again_in());   // kept: who wakes me does not put it off
  const SteadyTime again = *look_due_;
  const bool ends = deadline && *deadline <= again;
  const SteadyTime end = ends ? *deadline : again;
  for (;; now = steady_now()) {
    const SteadyTime deaf_until = std::min(heard_.deaf_until(), end);
    const std::size_t heeded = now < deaf_until ? also.size() : polled.size();
    const int ready = ::poll(polled.data(), heeded, poll_timeout(now < deaf_until ? deaf_until : end, now));
    if (ready < 0 && errno != EINTR) throw Error(ErrorCode::internal, "cannot wait").because(errno);
    if (ready > 0) break;
    if (ready == 0 && steady_now() >= end) return last_wake_ = ends ? port::Wake::deadline : port::Wake::again;
  }
  for (std::size_t i = 0; i < also.size(); ++i)
    if (polled[i].revents != 0) return last_wake_ = port::Wake::other_fd;
  now = steady_now();
  if (now >= end) {
    excused_ = true;   // what woke me may be what lets me go on
    return last_wake_ = ends ? port::Wake::deadline : port::Wake::again;
  }
  heard_.add(now);
  for (std::size_t i = also.size(); i < also.size() + watches_.size(); ++i)
    if (polled[i].revents != 0) return last_wake_ = watches_.kind(i - also.size());
  if (turn_) drain(turn_->fd.get());
  return last_wake_ = port::Wake::nudge;
}

}  // namespace thole::host
