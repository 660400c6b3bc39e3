// Port: the machine's claims and its queue of waiters.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/time.hpp"
#include "model/claim.hpp"
#include "model/queue_view.hpp"

namespace thole::port {

// Owning it is owning the units: it holds the locked descriptors. Destroying it (or the death of the last process that has
// copies of them) releases. A claim that reuses an outer one (or claims nothing) has no descriptors.
struct Claim {
  std::string id;                      // 16 hex digits; "outer/inner" for a claim within a claim
  std::vector<std::string> keys;       // the units, in slot order
  std::vector<Fd> locks;               // the locked FIFOs and the directory's own locks, CLOEXEC; their order is of no meaning
};

// What a caller wants to hold; the rule chooses the slots.
struct Entry {
  std::string id;                      // for Claim::id; made by the caller (random), so that it is known before the claim
  std::vector<std::string> eligible;   // keys of units that would do
  unsigned count = 1;
  bool shared = false;
  bool share_with_any = false;
  bool trust_claims = false;
  std::uint64_t memory_mib = 0;        // shared: the budget recorded in `who`
  std::optional<Seconds> time;         // declared length; recorded as `until` when the claim starts
  unsigned leave = 0;                  // units that stay free for others
  std::string command;                 // for people, cut to fit
};

// Why Place::sleep returned.
enum class Wake { turn, release, nudge, again, other_fd, deadline };

// A caller's standing in the line. Destroying it leaves the line without a trace.
class Place {
 public:
  virtual ~Place() = default;

  // One pass under the mutex: shows the rule the queue, carries out its decision. On Take the locked claim is returned (and
  // the ticket is gone); on Wait a ticket exists and the watches are set; Refuse throws nothing and leaves the line.
  // A lock that turns out taken makes the rule be asked again, a bounded number of times. The ticket's number is kept
  // for the life of the Place: who gives a claim back because the GPU proved unusable (destroying the Claim) and steps again is
  // back at the old place in line.
  virtual std::optional<Claim> step(const model::Rule& rule) = 0;
  virtual const model::Decision& decision() const = 0;   // of the last step

  // After a Take: tells the one behind that this place in line is empty. The next step and the destructor do it too; whoever
  // keeps the place a while calls this as soon as the claim is safe, so that the owner is not held up by the waking of others.
  virtual void pass_on() = 0;

  // Sleeps until something watched happens, one of `also` becomes readable or hangs up, or the deadline passes.
  // Looks again by itself after 2 s (Wake::again), the only timed wake-up.
  virtual Wake sleep(std::span<const int> also, std::optional<SteadyTime> deadline) = 0;

  // How many times a claim was won after Wake::again alone although nobody was stopped: lost wake-ups. Tests want 0.
  virtual unsigned progress_by_timeout() const = 0;
};

// Where a store keeps its state and what can be said against it.
struct StoreAbout {
  std::string directory;
  std::string kind;                        // "system", "fallback", "explicit", "private"
  std::vector<std::string> cautions;       // "advisory between friendly users: …", shown by doctor and run -v
};

class ClaimStore {
 public:
  virtual ~ClaimStore() = default;
  virtual std::unique_ptr<Place> enter(Entry entry) = 0;
  virtual std::vector<model::Holding> holdings() = 0;    // one per holder of every unit, only what is truly held
  virtual std::vector<model::Waiting> waiting() = 0;     // in order of arrival
  // The processes whose tickets want one of this claim's units. For after every task: one small read without the mutex, so that
  // one that has died may be among them.
  virtual std::vector<pid_t> wanted_by(const Claim& claim) = 0;
  // Records a new declared end; or, with `overdue`, that the end has come and this process, for which the claim was made, still
  // runs: holdings() says so until it ends or the unit is claimed again.
  virtual void amend(const Claim& claim, std::optional<WallTime> until, std::optional<pid_t> overdue = std::nullopt) = 0;
  virtual StoreAbout about() const = 0;

  // The store of the smaller machine inside a claim: the same protocol over that claim's units, in the claim's own directory,
  // made when first used. `claim_id` is one component (no '/'); a claim within a claim asks the inner store again.
  virtual std::unique_ptr<ClaimStore> within(const std::string& claim_id) = 0;
};

}  // namespace thole::port
