// Claims GPUs: look, choose, take or wait one's turn, look again. The one path by which every front gets a claim.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/claim/observer.hpp"
#include "base/shell_kind.hpp"
#include "model/queue_view.hpp"
#include "model/request.hpp"
#include "plan/environment/environment.hpp"
#include "plan/place/select.hpp"
#include "port/claim_store.hpp"
#include "port/clock.hpp"

namespace thole::app {

// Copies of the locks of a claim of ours, from its keeper. Throws Error(unavailable), also port::NobodyToAsk.
using Lend = std::function<std::vector<Fd>(const std::string& id)>;

// The units that the masks of a process show, by key: a mask of indices would show others once one before them has left.
using Allotment = std::set<std::string>;

// A machine and its claims: what an acquisition works on.
struct Site {
  Observer& observer;
  port::ClaimStore& store;
  const port::Clock& clock;
  const plan::Environment& environment;        // of the caller: outer masks, an outer claim
  const model::FreePolicy& policy;
  const model::FreePolicy& common_policy;      // of everybody here: what others have is judged by
  uid_t uid = 0;                               // who we are
  std::function<std::string(uid_t)> user_name;      // a name for a uid, its number where it has none
  Millis patience{10'000};                     // for one look at the driver
  Lend lend = {};                              // empty: nobody lends
  AskShell shell = {};                         // for what people are told to type; empty: a POSIX one
  std::string claim_named_by = "THOLE_CLAIM";  // what has put us inside a claim, for people: the variable, or an option
  // What is on the GPUs now, for who has claimed long ago: the observer above shows what was there then, and another thread may
  // be looking by it. Empty: that one will do.
  std::function<std::unique_ptr<Observer>()> look_anew = {};
};

// Where a waiter stands; given to the caller whenever it changes.
struct Standing {
  Site& site;                                  // where it claims: inside another claim, it may differ from the caller's own
  const model::Wait& wait;
  const model::Snapshot& snapshot;
  const std::vector<model::Unit>& units;
};

struct AcquireOptions {
  std::string id;                              // for the claim; empty = a fresh random one
  std::string command;                         // recorded for people
  bool enforced = false;                       // somebody ends the job at request.time: others may plan with it
  std::vector<std::string> own{};              // claims of the caller's own that end only when it ends them: not waited for
  bool keeps_around = true;                    // the claims around live as long as what is claimed inside, which runs something
  std::optional<Allotment> allotted{};         // as an earlier claim of the same had it: a mask means what it meant
  // The request could be met once: what it names may be away for a moment, and of several names those that are there will do.
  // These units (keys) did then. It waits for them, too, however few are there now; where nobody knows them any more it is
  // refused as others are.
  std::optional<std::set<std::string>> had{};
  bool awaits_driver = true;                   // while it is late and the request may wait; false: unavailable at once
  std::vector<int> cancel;                     // descriptors whose becoming readable ends the wait: Error(interrupted)
  std::function<bool()> stands_still{};        // is whom this waits for stopped? Then it is out of line as long; may be empty
  std::function<std::shared_ptr<void>()> alone;  // called after each lock, before the look that follows it; may be empty
  std::function<void(const model::Snapshot&)> looked;  // what the first look saw; throws to claim nothing; may be empty
  std::function<void(const Standing&)> waiting;     // may be empty
  std::function<void(const std::string&)> caution;  // "GPU 3 was taken back: pid 4711 still uses it"; may be empty
};

// A claim and what it is made of. Move-only; destroying it releases.
struct Acquired {
  port::Claim claim;
  std::vector<model::Unit> units;              // all units of the machine at that look
  std::vector<std::size_t> chosen;             // the claimed ones, indices into `units`, as the program is to number them
  std::string explain;                         // why these
  std::shared_ptr<void> alone;                 // what AcquireOptions::alone gave, for the caller to drop
  std::shared_ptr<port::ClaimStore> inner_store;    // where it was claimed, when inside another claim; else Site::store
  port::ClaimStore& store(const Site& site) const { return inner_store ? *inner_store : site.store; }
  std::optional<std::uint64_t> share_mib;           // what a sharer's claim around it leaves it of each unit
  std::vector<std::string> cautions{};              // of which claims around it it does not keep, and why
  std::vector<model::InLine> passed{};              // who waited before it and let it go first, since it was to end by then
  std::optional<WallTime> ends_by{};
  std::optional<Allotment> allotted{};              // what masks had left; absent: there were none
  std::set<std::string> would_do{};                 // keys of the units that would have done, these among them
};

// Throws Error: usage (can never be met), unavailable (sick, unreadable, no state directory), busy (with a wait of zero),
// timed_out, interrupted.
Acquired acquire(Site& site, const model::Request& request, const AcquireOptions& options);

// What acquire would do now, without doing it: the choice and its reasons, or what it would wait for.
struct Preview {
  model::Decision decision;
  std::vector<model::Unit> units;
  std::vector<std::size_t> chosen;             // now; where it would wait, those it would choose if nobody had any
  std::string explain;
  std::optional<std::uint64_t> share_mib;      // as in Acquired
};
Preview preview(Site& site, const model::Request& request);

// Keys of the units that would do for a request, whoever has them now. Throws Error(usage) when it can never be met.
std::vector<std::string> usable_keys(const Site& site, const model::Request& request);

// 16 random hex digits.
std::string fresh_claim_id();

}  // namespace thole::app
