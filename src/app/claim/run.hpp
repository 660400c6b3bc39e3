// Runs a command on claimed GPUs: claim, start, stay with it to its end.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "app/claim/acquire.hpp"
#include "app/claim/binding.hpp"
#include "app/claim/door.hpp"
#include "model/job.hpp"
#include "port/claim_control.hpp"
#include "port/commands.hpp"
#include "port/processes.hpp"

namespace thole::app {

// Where the files of a claim lie: (id, owner) -> directory; and of one that we are making: id -> directory.
using ClaimDirectory = std::function<std::string(const std::string& id, uid_t owner)>;
using JobOfLane = std::function<std::optional<model::JobId>(pid_t)>;   // of our own queue; empty: there is none
using NewClaimDirectory = std::function<std::string(const std::string& id)>;   // throws Error(unavailable)

struct RunRequest {
  model::Request request;
  std::vector<std::string> argv;
  plan::Ids ids = plan::Ids::automatic;
  bool linger = false;                 // wait for what the command leaves behind instead of ending it
  bool supervised = true;              // false: replace this process by the command
  model::BindOptions bind;             // how it is bound; a claim of no GPU is not
  std::string in;                      // run inside this claim (id or unique prefix) instead of making one of the machine's
  bool part_of_it = false;             // what `request` says is claimed inside that one; else the whole of it is joined
  std::map<std::string, std::string> carry;   // further variables for the job: THOLE_MACHINE, THOLE_STATE_DIR
};

// Told as it happens; each may be empty.
struct RunEvents {
  std::function<void(const Standing&)> waiting;
  std::function<void(const std::string&)> caution;
  std::function<void(const Acquired&)> got;
  std::function<void(const Binding&)> binding;  // the plan, before the command starts
  std::function<void(const Binding&, const ReadBack&)> bound;  // what came of it
  std::function<void(const std::vector<std::string>&, bool waited_for)> left_behind;
};

struct RunPorts {
  Site& site;
  port::Processes& processes;
  port::Commands& commands;
  port::ClaimControl& control;
  ClaimDirectory directory;
  NewClaimDirectory new_directory;
  DoorMaker make_door;
  BindSite bind;
  JobOfLane job_of_lane = {};
};

// Returns how the command ended; the claim is free by then. Throws what acquire throws, and Error(not_found | not_executable).
port::Ended run(RunPorts ports, const RunRequest& wanted, const RunEvents& events, const std::vector<int>& cancel);

}  // namespace thole::app
