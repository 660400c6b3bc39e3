// Claims without a command: made for a shell, a process or a time; found again, extended, released.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/run.hpp"
#include "model/json.hpp"

namespace thole::app {

// A claim that some process keeps.
struct KeptClaim {
  std::string id;
  std::vector<std::string> keys;       // its units
  uid_t uid = 0;
  pid_t pid = 0;                       // as recorded
  std::string command;
  std::string directory;               // of its socket
};

// The claim a word names: its id or a unique prefix, or a GPU it holds (index, UUID, PCI address). "" = the one we are inside
// (THOLE_CLAIM), else our only claim without a command. Throws Error(usage) naming what there is.
KeptClaim find_claim(Site& site, const std::string& word, const ClaimDirectory& directory);

struct HoldRequest {
  model::Request request;
  plan::Ids ids = plan::Ids::automatic;
  std::optional<pid_t> process;        // ends with it
  std::string command;                 // recorded: "(claim for shell 4711)"
  std::map<std::string, std::string> carry;
};

// Starts a holder and returns what it has (schema thole/claim/1: id, gpus, keys, since, until, variables). Throws what acquire throws.
model::Json hold(RunPorts ports, const HoldRequest& wanted, const RunEvents& events, const std::vector<int>& cancel);

// Asks the keeper to let go; returns when the GPUs are free.
void release(const RunPorts& ports, const KeptClaim& claim);

// Moves the declared end to `by` from now. Returns the new end.
WallTime extend(const RunPorts& ports, const KeptClaim& claim, Seconds by);

// "thole/claim/1", also what --json prints of a claim made.
model::Json claim_json(const Site& site, const Acquired& acquired, const plan::Variables& variables, std::optional<WallTime> until);

}  // namespace thole::app
