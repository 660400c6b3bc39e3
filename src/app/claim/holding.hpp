// Claims without a command: made for a shell, a process or a time; extended, released.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/claim/find_claim.hpp"
#include "app/claim/run.hpp"
#include "model/job.hpp"
#include "model/json.hpp"
#include "port/placeholder.hpp"

namespace thole::app {

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
