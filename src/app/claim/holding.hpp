// Claims without a command: made for a shell, a process or a time; found again, extended, released.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/claim/run.hpp"
#include "model/job.hpp"
#include "model/json.hpp"
#include "port/placeholder.hpp"

namespace thole::app {

// A claim that some process keeps.
struct KeptClaim {
  std::string id;                      // "outer/inner" for one within another
  std::vector<std::string> keys;       // its units
  uid_t uid = 0;
  pid_t pid = 0;                       // as recorded
  std::string command;
  std::string directory;               // of its socket
  std::optional<std::uint64_t> share_mib = {};   // of a sharer, as recorded
  std::shared_ptr<port::ClaimStore> inner_store = nullptr;   // where it was claimed, when inside another; else the machine's
  std::optional<model::JobId> job = {};          // of our queue, that it is for

  port::ClaimAddress address() const { return {id, directory, uid, pid}; }
};

// A job of our queue that has not ended.
struct OwnJob {
  model::JobId id = 0;
  std::string name;
  bool held = false, paused = false;             // its rest; what runs of it
};

// What a claim is found by. To give one back or to extend it no driver is needed, so that both work while it hangs.
struct ClaimSearch {
  port::ClaimStore* store = nullptr;   // null: there is none, so there are no claims
  const plan::Environment& environment;
  uid_t uid = 0;                       // who we are
  ClaimDirectory directory;
  std::function<const Observer&()> gpus;   // one that has looked; asked only for a word that is no claim's id
  std::function<std::string(uid_t)> user_name;
  JobOfLane job_of_lane = {};
  std::function<std::optional<OwnJob>(const std::string&)> job_called = {};   // what a word names in our queue; may be empty
  AskShell shell = {};
  bool to_release = false;             // what is found shall end
  bool also_overdue = false;           // also one that has let go at its end, while its process still runs
};

// The claim a word names: its id or the unique beginning of it (6 characters and more), or a GPU it holds (index, UUID, PCI
// address); a word that is both is refused. "outer/inner" is a claim within a claim, and so is "" where THOLE_CLAIM says so;
// a GPU means, inside a claim, who has claimed it inside, if anybody has. With "@USER" behind it (a name or a number)
// it is that user's, whoever else has such a claim.
// "" = the one we are inside (THOLE_CLAIM), else our only claim without a command.
// Throws Error(usage) naming what there is, and Error(unavailable) for one that is another user's.
KeptClaim find_claim(const ClaimSearch& search, const std::string& word);

// Is that a claim's id, or the beginning of one, "outer/inner", or of that form?
bool looks_like_a_claim(std::string_view word);

// Does the id of a claim begin with that, which is too short to be a beginning?
bool is_too_short_for_a_claim(const ClaimSearch& search, const std::string& word);

// The claim of that id, whosever it is, to be shown. Throws Error(usage) naming what there is.
KeptClaim claim_with_id(const ClaimSearch& search, const std::string& word);

struct HoldRequest {
  model::Request request;
  plan::Ids ids = plan::Ids::automatic;
  std::optional<pid_t> process;        // ends with it
  bool for_shell = false;              // what that process starts runs inside the claim
  std::string command;                 // recorded: "thole claim for shell 4711"
  std::map<std::string, std::string> carry;
  port::Placeholder* placeholder = nullptr;   // keeps the claimed GPUs looking used; null: they need not
};

// Starts a holder and returns what it has (schema thole/claim/1: id, gpus, keys, since, until, variables), after `tell` was
// given the same: a claim that cannot be told to anybody is given back. Throws what acquire and `tell` throw.
model::Json hold(RunPorts ports, const HoldRequest& wanted, const RunEvents& events, const std::vector<int>& cancel,
                 const std::function<void(const model::Json&)>& tell);

// Does what asks the keeper of a claim; where none can be asked, and the claim is a job's of ours, that is said.
void ask_keeper(const KeptClaim& claim, const std::function<void()>& ask);

// Asks the keeper to let go; returns when the claim has none of its GPUs any more. Throws Error(unavailable) when the keeper
// says so and the kernel does not.
void release(const ClaimSearch& search, port::ClaimControl& control, const KeptClaim& claim);

// Moves the declared end to `by` from now. Returns the new end.
WallTime extend(port::ClaimControl& control, const port::Clock& clock, const KeptClaim& claim, Seconds by);

// "thole/claim/1", also what --json prints of a claim made.
model::Json claim_json(const Site& site, const Acquired& acquired, const plan::Variables& variables,
                       std::optional<WallTime> until);

}  // namespace thole::app
