// Port: the machine's claims and its queue of waiters.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/time.hpp"
#include "model/claim.hpp"
#include "model/queue_view.hpp"
#include "port/claim.hpp"

namespace thole::port {

// What a caller wants to hold; the rule chooses the slots. The declared end is recorded when the claim starts.
struct Entry : model::Terms {
  std::string id;                      // the claim's; made by the caller (random), so that it is known before the claim
  std::vector<std::string> eligible;   // keys of units that would do
  std::string command;                 // for people, cut to fit
  bool needs_note = false;             // nothing of it runs: it is found, and released, by its note alone
  bool only_looks = false;             // one step that takes nothing: it waits for nobody
  std::vector<int> cancel;             // descriptors whose becoming readable ends every wait: Error(interrupted)
  std::function<void(const std::string&)> caution;   // told at once what keeps others from it; may be empty
};

// Why Ticket::sleep returned.
enum class Wake { turn, release, nudge, again, other_fd, deadline };

// A caller's ticket in the line: its standing there. Destroying it leaves the line without a trace.
class Ticket {
 public:
  virtual ~Ticket() = default;

  // One pass under the mutex: shows the rule the queue, carries out its decision. On Take the locked claim is returned (and
  // the record is gone); on Wait one exists and the watches are set; Refuse throws nothing and leaves the line.
  // A lock that turns out taken makes the rule be asked again, a bounded number of times. The number is kept for the life of
  // the Ticket: who gives a claim back because the GPU proved unusable (destroying the Claim) and steps again is back where it
  // stood in line.
  virtual std::optional<Claim> step(const model::Rule& rule) = 0;
  virtual const model::Decision& decision() const = 0;   // of the last step

  // What would do has changed: the next step is for these units.
  virtual void want(std::vector<std::string> eligible) = 0;

  // After a Take: tells the one behind that nobody stands here any more. The next step and the destructor do it too; whoever
  // keeps the ticket a while calls this as soon as the claim is safe, so that the owner is not held up by the waking of others.
  virtual void pass_on() = 0;

  // Sleeps until something watched happens, one of `also` becomes readable or hangs up, or the deadline passes.
  // Looks again by itself after 2 s, or after what the decision says (Wake::again), the only timed wake-up.
  virtual Wake sleep(std::span<const int> also, std::optional<SteadyTime> deadline) = 0;

  // How many times a claim was won after Wake::again alone although nobody was stopped: lost wake-ups. Tests want 0.
  virtual unsigned progress_by_timeout() const = 0;
};

// The locks of a claim of ours, copied from a process that has them and is found without asking the claim's keeper: one that
// has started this process, at whatever distance, or took them.
struct InheritedLocks {
  ClaimLocks copies;
  std::optional<pid_t> keeper;         // has them, and lets nobody copy them
  bool ended = false;                  // who took them has ended, as is seen from here
};

// A unit whose lock is kept by what this process runs inside.
struct KeptAround {
  std::string key;
  bool to_the_end = false;             // of this process; else by a claim of who started it, who may let go before
  pid_t launcher = 0;                  // ours (run, map, a lane) that has claimed it and has started this process; 0: none has
  pid_t shell = 0;                     // above this process, or itself, for which it is claimed until that ends; 0: none
  pid_t keeper = 0;                    // of that claim
};

// A unit that a claim would not get although nobody is seen to have it.
struct OutOfReach {
  std::string key;
  std::string why;   // a sentence: "it may be claimed: …", "it cannot be claimed: …"
};

// Where a store keeps its state and what can be said against it.
struct StoreAbout {
  std::string directory;
  std::string kind;                        // "system", "fallback", "explicit", "private"
  std::string kept_by;                     // at the last look: who keeps the claims locked, so that order is lost; "" = nobody
  std::vector<OutOfReach> out_of_reach;    // each unit once
  std::vector<std::string> cautions;       // "advisory between friendly users: …", shown by doctor and run -v
};

// What became of a new end: recorded; it cannot be; or the moment by which it was decided is over.
enum class Amended { recorded, cannot, outdated };

// The line, as those in it and those who hold units see it.
class ClaimLine {
 public:
  virtual ~ClaimLine() = default;

  virtual std::unique_ptr<Ticket> enter(Entry entry) = 0;
  virtual std::vector<model::Waiting> waiting() = 0;     // in order of arrival

  // Those of these users who say in a file of their own that they stand in line for one of these units, and live, also where
  // their tickets were written over: their numbers and users.
  virtual std::vector<model::InLine> said_in_line(const std::vector<std::string>& keys, const std::set<uid_t>& users) = 0;

  // The living waiters that want one of this claim's units, and should have them when a task of it has ended: those who were
  // passed when it was taken, though, only when the claim is old. So a waiter that cannot start, or will not, costs a claim
  // once in a while and not with every task. Without the mutex.
  virtual std::vector<pid_t> wanted_by(const Claim& claim) = 0;
};

// What this process, or its user, holds already.
class OwnClaims {
 public:
  virtual ~OwnClaims() = default;

  // The units of my own living claim of this id, by what nobody but its owner can have said; none where there is none.
  virtual std::vector<std::string> own_claim(const std::string& id) = 0;

  // The budget in MiB of my own living claim of this id, where it is a sharer's.
  virtual std::optional<std::uint64_t> own_share(const std::string& id) = 0;

  // What tells whether root takes units back from my own living claim of this id, or has, without having its locks. Throws
  // Error(unavailable) where that cannot be seen.
  virtual WatchedUnits watch(const std::string& id) = 0;
};

// The locks of claims, for what runs inside them.
class LocksOfClaims {
 public:
  virtual ~LocksOfClaims() = default;

  // Copies of the locks of my own living claim of this id, where this process has them: inherited, by that claim, or for
  // another claim within it. Any of those may be closed before what asks has ended.
  virtual ClaimLocks own_locks(const std::string& id) = 0;
  virtual InheritedLocks copy_locks(const std::string& id) = 0;   // nothing at all where no such claim lives

  // Those of these units that are not let go before this process has ended, or has returned to who started it: it has inherited
  // their locks, or who started it has them, or they are claimed for the shell that started it. `shared`: those that keep
  // sharers out. Ours here is nothing that it has claimed.
  virtual std::vector<KeptAround> kept_around(const std::vector<std::string>& keys, bool shared) = 0;

  // Throws Error(unavailable) unless the descriptors of this claim, which its keeper (`owner`) has handed out, are the locks of
  // its units, held, and what else a claim of this store has: nothing besides goes on to a job.
  virtual void check(const std::string& id, const std::vector<std::string>& units, std::span<const Fd> handed, uid_t owner) = 0;
};

// Declared ends of claims that live.
class ClaimEnds {
 public:
  virtual ~ClaimEnds() = default;

  // Records a new declared end of my own living claim of this id; or, with `overdue`, that the end has come and this process,
  // for which the claim was made, still runs: holdings() says so while the claim's note is kept. False when it cannot be
  // recorded.
  virtual bool amend(const std::string& id, std::optional<WallTime> until, std::optional<pid_t> overdue = std::nullopt) = 0;

  // Nothing while somebody keeps the claims locked: nothing is in order then.
  virtual std::optional<model::Moment> moment() = 0;

  // Records a new declared end of my own living claim, if nobody holds anything else, or longer, since the moment: in one step,
  // so that nobody decides by what is there in between.
  virtual Amended amend_as_of(const model::Moment& moment, const std::string& id, std::optional<WallTime> until) = 0;
};

// The claims of one machine, or of what one claim holds.
class ClaimStore : public ClaimLine, public OwnClaims, public LocksOfClaims, public ClaimEnds {
 public:
  virtual std::vector<model::Holding> holdings() = 0;    // one per holder of every unit, only what is truly held
  virtual bool knows_any(const std::vector<std::string>& keys) = 0;   // of these units; else holdings() has none of them
  virtual StoreAbout about() const = 0;

  // The store of the smaller machine inside a claim: the same protocol over that claim's units, in the claim's own directory,
  // made when first used. `claim_id` is one component (no '/'); a claim within a claim asks the inner store again.
  virtual std::unique_ptr<ClaimStore> within(const std::string& claim_id) = 0;
};

}  // namespace thole::port
