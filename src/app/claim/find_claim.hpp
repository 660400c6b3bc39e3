// Claims found again, by what a word says of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/claim/run.hpp"
#include "model/job.hpp"

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
  port::ClaimStore& claimed_in(port::ClaimStore& machine) const { return inner_store ? *inner_store : machine; }
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

// Is that a claim's id, or the beginning of one, "outer/inner", "CLAIM@USER", or of that form?
bool looks_like_a_claim(std::string_view word);

// Does the id of a claim begin with that, which is too short to be a beginning?
bool is_too_short_for_a_claim(const ClaimSearch& search, const std::string& word);

// The claim of that id, whosever it is, or that of "CLAIM@USER", to be shown. Throws Error(usage) naming what there is.
KeptClaim claim_with_id(const ClaimSearch& search, const std::string& word);

}  // namespace thole::app
