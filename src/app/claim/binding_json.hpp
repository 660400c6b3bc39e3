// How processes are bound, as JSON: what --json prints and the C ABI returns (docs/json.md).
#pragma once

#include "app/claim/bind_rank.hpp"
#include "model/json.hpp"

namespace thole::app {

// {"mode": …, "ranks": [{"rank": 0, "gpus": [0], "cpus": "0-3", …, "asked": {…}, "set": {…}, "lacks": [], "kept": []}]}
model::Json binding_to_json(const Binding& binding);

// What the kernel gave: {"rank": 0, "binding": …, "got": {"cpus": …, "memory": …, "memory_nodes": []}, "differences": []}
model::Json bound_to_json(const Binding& binding, std::size_t rank, const ReadBack& answer);

// A running process: "thole/bound/1"; `rank`: which of the binding's it is.
model::Json rebound_to_json(const Rebound& rebound, pid_t pid, std::size_t rank = 0);

}  // namespace thole::app
