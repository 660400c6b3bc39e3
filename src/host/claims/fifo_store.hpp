// Internals of the claim store: the store, and a caller's ticket in the line (fifo_ticket.cpp: the pass and the sleep;
// fifo_decisions.cpp: taking and waiting; report.cpp: who holds and who waits; amend.cpp: new ends).
//
// How this works. A pass (Ticket::step) runs under alloc: read the tickets, drop the dead, look at the slots, ask the rule, and
// do what it says. Take: lock the nodes, check that directory and nodes are still the ones their names lead to, write the
// notes, leave the line. Wait: have a ticket, watch what the rule names, wake whom it names. Between passes a waiter sleeps in
// poll with no lock held but that of its own turn FIFO, which shows it alive and is its mailbox.
//
//   alloc      -> tickets, slots, rule -> locks, note, ticket -> unlock -> close turn FIFO (wakes the next) | sleep
//
// An exclusive claim that does not wait reads nobody's notes. Whoever waits or shares collects them before the pass
// (notes.hpp). A sharer takes his berth, says there what he takes and beside whom (share_terms.hpp), makes his note live, by
// which his other claims know him, and then looks again: if the rule would not let him in beside those who are there now, he
// gives all back. Of two who come at once at least one sees the other. No note, no share.
//
// Every step may be the last one of its process. Locks die with it; a record without a locked FIFO is dropped by whoever
// meets it; a note without a lock is not believed.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "host/claims/own_tickets.hpp"
#include "host/claims/queue_file.hpp"
#include "host/claims/safe_gpu_lock.hpp"
#include "host/claims/slot_look.hpp"
#include "host/claims/store.hpp"
#include "host/claims/watches.hpp"

namespace thole::host {

class FifoStore : public port::ClaimStore {
 public:
  FifoStore(ClaimStoreOptions options, StateDir directory, bool look_only);

  std::unique_ptr<port::Ticket> enter(port::Entry entry) override;
  std::vector<model::Holding> holdings() override;
  bool knows_any(const std::vector<std::string>& keys) override;
  std::vector<model::Waiting> waiting() override;
  std::vector<pid_t> wanted_by(const port::Claim& claim) override;
  std::vector<model::InLine> said_in_line(const std::vector<std::string>& keys, const std::set<uid_t>& users) override;
  std::vector<std::string> own_claim(const std::string& id) override;
  std::optional<std::uint64_t> own_share(const std::string& id) override;
  port::ClaimLocks own_locks(const std::string& id) override;
  port::InheritedLocks copy_locks(const std::string& id) override;
  port::WatchedUnits watch(const std::string& id) override;
  std::vector<port::KeptAround> kept_around(const std::vector<std::string>& keys, bool shared) override;
  void check(const std::string& id, const std::vector<std::string>& units, std::span<const Fd> handed, uid_t owner) override;
  bool amend(const std::string& id, std::optional<WallTime> until, std::optional<pid_t> overdue) override;
  std::optional<model::Moment> moment() override;
  port::Amended amend_as_of(const model::Moment& moment, const std::string& id, std::optional<WallTime> until) override;
  port::StoreAbout about() const override;
  std::unique_ptr<port::ClaimStore> within(const std::string& claim_id) override;

  // For the tickets of this store; under `threads()`.
  ClaimDirectory& nodes() { return *nodes_; }
  QueueFile& queue() { return *queue_; }
  NoteBook notes();                    // of a directory of its own; not under threads()
  // Makes the note of a claim live; where notes/ takes none and the claim is exclusive, in the claim's own directory.
  Fd note(const Note& note, int above);
  // Says a ticket by the user's own file, where there is notes/.
  void say(Fd& live, const WrittenTicket& ticket) { if (notes_) own_tickets_->keep(live, ticket); }
  bool has_words() const { return static_cast<bool>(notes_); }
  // Of those tickets the ones whose users say the same; not under threads().
  std::vector<bool> vouched(const std::vector<WrittenTicket>& tickets);
  // Those who say themselves that they stand in line for one of these units.
  std::vector<model::InLine> in_line(const model::SlotSet& units, const std::function<bool(uid_t)>& of);
  SteadyTime& alloc_tried_only_until() { return alloc_tried_only_until_; }   // by all tickets
  model::QueueView& view() { return view_; }   // what the last pass showed; kept for its memory
  std::mutex& threads() { return threads_; }
  const ProcessIdentity& me() const { return me_; }
  const ClaimStoreOptions& options() const { return options_; }
  // Before threads(). In a child everything is opened anew: descriptors shared with the parent exclude nobody.
  void adopt_after_fork();
  bool reopen();                       // looks for the directory again: is it another one?
  bool caution(const std::string& text);   // false: said before
  void hook(const char* step) const { if (options_.step_hook) options_.step_hook(step); }
  // The slots of its units. One without a slot is passed over while there are enough of the others; else it throws.
  model::SlotSet slots_of(const port::Entry& entry) const;
  void open_again();                   // under threads()
  std::string init_hint() const;

 private:
  // Where users say their tickets: notes/, by a descriptor of its own, and the directory's number.
  struct Words {
    Fd directory;
    std::uint64_t number;
  };
  Words words() const;
  std::vector<Note> own_notes(const std::string& id);   // the living ones of a claim of mine; under threads()
  // Of what a note of ours names; and their numbers. Throws Error(unavailable) where one cannot be seen.
  SlotNodes open_units(const Note& note, std::array<Fd, model::max_slots>& units);
  std::vector<Fd> lock_nodes(const std::vector<Note>& notes);   // under threads(), like the next
  port::ClaimLocks copy_locks_of(pid_t pid, const std::string& id, const std::vector<Fd>& nodes);
  Fd open_turn_of(const WrittenTicket& ticket);
  NoteBook book_of(int directory) const;
  bool change_note(const std::string& id, const std::function<void(Note&)>& how);
  model::Moment moment_by(NoteBook& notes);
  void open_directory(StateDir directory);
  void adopt();
  void say_who_keeps(const std::string& alloc, const KernelLocks& locks);   // under threads()

  ClaimStoreOptions options_;
  bool look_only_;                     // makes nothing, until somebody enters
  mutable std::mutex threads_;
  std::optional<ClaimDirectory> nodes_;
  std::optional<QueueFile> queue_;
  Fd notes_;                           // notes/; empty where there is none
  std::optional<OwnNotes> own_notes_;
  std::optional<OwnTickets> own_tickets_;
  model::QueueView view_;
  ProcessIdentity me_;
  std::atomic<pid_t> adopted_by_;      // whose descriptors they are; negative while a thread of that process opens them
  mutable std::mutex cautions_mutex_;  // its own: cautions arise while threads_ is held, and while it is not
  std::vector<std::string> cautions_;
  SteadyTime alloc_tried_only_until_{};   // under threads_, like the next
  AllocBudget looks_;                  // of those who only look; under threads_
  AllocBudget amendments_;             // of a claim's keeper, who has others to answer; likewise
  std::string kept_by_;                // what the last of them saw; under threads_
  std::string berths_kept_by_;         // what the last of holdings() saw of the berths; likewise
};

// One thread of this process at a time; and inside of alloc, one process at a time, unless somebody else keeps that.
class Section {
 public:
  using Said = std::function<void(const std::string&)>;
  Section(FifoStore& store, AllocBudget& budget, const Said& stuck, std::span<const int> cancel);
  bool ordered() const { return alloc_.has_value(); }
  const std::string& why() const { return why_; }   // who keeps it
  void leave() { alloc_.reset(); }

 private:
  std::lock_guard<std::mutex> threads_;
  std::optional<AllocLock> alloc_;
  Fd kept_;                            // from sweeps (inner.hpp)
  std::string why_;
};

// How often a sleeper may be woken: 25 times at once, and then 50 times a second.
class Hearing {
 public:
  void add(SteadyTime now) { paid_until_ = std::max(paid_until_, now) + apart; }
  SteadyTime deaf_until() const { return paid_until_ - at_once * apart; }   // past: it hears

 private:
  static constexpr Millis apart{20};
  static constexpr int at_once = 25;
  SteadyTime paid_until_ = SteadyTime{} + at_once * apart;
};

class FifoTicket : public port::Ticket {
 public:
  FifoTicket(FifoStore& store, port::Entry entry);
  ~FifoTicket() override;

  std::optional<port::Claim> step(const model::Rule& rule) override;
  const model::Decision& decision() const override { return decision_; }
  void want(std::vector<std::string> eligible) override { entry_.eligible = std::move(eligible); }
  void pass_on() override { spent_.reset(); }
  port::Wake sleep(std::span<const int> also, std::optional<SteadyTime> deadline) override;
  unsigned progress_by_timeout() const override { return progress_by_timeout_; }

 private:
  // My standing in line: the locked turn FIFO and the ticket written for it.
  struct Turn {
    Fd fd;
    WrittenTicket ticket;
    Fd word;                           // keeps what I say of it myself live (own_tickets.hpp)
  };
  // What is known of a ticket that may go before mine: does its user say it? Asked when it is new, or has changed, and again of
  // whom I stand behind: he may have left its FIFO's lock behind.
  struct Word {
    WrittenTicket ticket;
    bool vouched;
  };
  // Somebody ahead whose process is stopped (Ctrl-Z), as /proc says.
  struct Stopped {
    std::uint64_t number;
    std::uint32_t uid, pid;
    std::uint64_t start;
  };
  struct Pass;
  enum class Outcome { done, again, moved, uninformed, unheard };
  // What a claim's note says of a unit that was locked for it.
  struct LockedSlot {
    unsigned berth;                    // 0: exclusively; k + 1: berth k
    NodeNumber node;
  };
  // A berth taken on a shared slot.
  struct Shared {
    unsigned slot, berth;
  };

  Outcome try_step(const model::Rule& rule, std::optional<port::Claim>& claim);
  Outcome step_in_order(Pass& pass, const model::Rule& rule, std::optional<port::Claim>& claim);
  Outcome step_without_order(Pass& pass, const model::Rule& rule, std::optional<port::Claim>& claim);
  void look_at_queue(Pass& pass);
  void show_queue(Pass& pass);
  bool ask_for_words();
  void hear_line();
  bool drop_dead(Pass& pass);
  Outcome take(Pass& pass, const model::Take& decision, std::optional<port::Claim>& claim);
  std::vector<std::uint64_t> passed_for(Pass& pass, const std::vector<unsigned>& slots);
  bool lock_slot(Pass& pass, unsigned slot, port::ClaimParts& claim, std::vector<LockedSlot>& locked);
  Fd take_berth(Pass& pass, unsigned slot, bool nobody_has_it, unsigned& berth);
  void say_who_keeps_berths();
  void write_note(Pass& pass, const model::Take& decision, const std::vector<LockedSlot>& locked, port::ClaimParts& claim);
  bool still_admitted(const model::Rule& rule);
  void collect_notes();
  void inform(Pass& pass, std::vector<model::SlotView>& slots);
  bool must_be_informed(const Pass& pass) const;
  void step_out(Pass& pass);
  Outcome wait(Pass& pass, const model::Wait& decision);
  bool watch(Pass& pass, const model::Wait& decision, Watches& watches);
  bool watch_ticket(Pass& pass, std::uint64_t number, Watches& watches);
  bool watch_slot(Pass& pass, unsigned slot, Watches& watches);
  const WrittenTicket* said_ticket(const Pass& pass, std::uint64_t number) const;
  bool behind_is_stopped(Pass& pass, const model::Wait& decision);
  void caution(const std::string& text);
  Millis look_again_in() const;
  void join(Pass& pass);
  void leave(Pass& pass);
  void nudge(Pass& pass, const std::vector<std::uint64_t>& numbers) const;
  WrittenTicket my_ticket(std::uint64_t number, unsigned index, WallTime since) const;
  bool is_stopped(const model::TicketView& ticket);

  FifoStore& store_;
  std::uint32_t maker_;                // the process that may use this ticket
  port::Entry entry_;
  model::Wants wants_;                         // of what was entered, by the slots of this pass
  model::Decision decision_ = model::Wait{};
  std::optional<NoteBook> notes_;        // collected for the pass to come; empty: it reads none
  std::vector<Shared> shared_;           // of the claim just taken
  // Its units where others keep berths that nobody shares by; without a keeper where they do so for moments.
  std::vector<std::pair<std::string, std::optional<BerthKeeper>>> alone_;
  // Taken and given back too often in this step: none of them is shared any more, and one that nobody has is taken alone. For
  // whoever locks bytes for moments can spoil each second look.
  model::SlotSet not_shared_;
  std::optional<Turn> turn_;
  std::optional<Turn> spent_;            // left, not yet closed: closing wakes the next in line (pass_on)
  std::optional<WrittenTicket> first_ticket_;   // number and time of my first: I keep them when I give back and come again
  Watches watches_;
  std::vector<Stopped> stopped_;
  std::unordered_map<unsigned, Word> words_;   // by index
  std::vector<WrittenTicket> unheard_;   // of the last pass
  std::optional<std::vector<model::InLine>> heard_line_;   // before I joined, as each says himself
  std::vector<model::InLine> also_in_line_;   // as QueueView has it; told once
  port::Wake last_wake_ = port::Wake::turn;
  Hearing heard_;
  std::optional<SteadyTime> look_due_;   // by myself, however often I am woken
  bool restless_ = false;              // things kept changing while we looked: look again soon
  bool excused_ = false;               // a look by time alone is expected to make progress now
  AllocBudget alloc_;
  SafeGpuPatience neighbours_patience_;
  unsigned progress_by_timeout_ = 0;
};

}  // namespace thole::host
