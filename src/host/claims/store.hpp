// The claim store over flocked FIFOs: port::ClaimStore for a state directory.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/claims/alloc_lock.hpp"
#include "host/claims/claim_directory.hpp"
#include "host/state_dir.hpp"
#include "port/claim_store.hpp"

namespace thole::host {

struct ClaimStoreOptions {
  StateLocation location;
  std::vector<std::string> units;     // keys of all units of the machine: its directory gets nodes for them
  std::optional<gid_t> group;         // the site's, for the system's directory where root's own claim has to make it
  std::function<std::string()> personal_root;   // where the directories of claims lie, made if need be; throws Error
  std::string outer;                  // of a directory inside a claim: the directory that the claim is held in
  std::vector<std::string> neighbours;  // lock files of safe-gpu, held while choosing (safe_gpu_lock.hpp)
  AllocPatience patience;             // of who claims
  AllocPatience look_patience{Millis{800}, Millis{800}};   // of who only looks
  AllocPatience amend_patience{Millis{50}, Millis{50}};   // of a claim's keeper, for the order of his news
  // Called at every step of the protocol with its name; tests end the process there. Async-signal-like care: do nothing else.
  void (*step_hook)(const char* step) = nullptr;
};

// Opens the store, making the directory where that is ours to do. Safe for use by several threads (each with Tickets of its
// own), and in a child after fork (it opens everything anew; Tickets and Claims made before belong to the parent).
std::unique_ptr<port::ClaimStore> open_claim_store(ClaimStoreOptions options);

// Without making anything, for looking only; nullptr where there is no directory.
std::unique_ptr<port::ClaimStore> find_claim_store(ClaimStoreOptions options);

}  // namespace thole::host
