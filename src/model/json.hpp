// The one JSON schema of thole: machine files, --json output and the C ABI all go through these functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "model/claim.hpp"
#include "model/machine.hpp"

namespace thole::model {

using Json = nlohmann::ordered_json;

// A machine to and from "thole/machine/1". Reading is strict about types and tolerant of unknown fields; a mistake
// throws Error(usage) that names the path ("gpus[2].memory_mib: expected a number").
Json to_json(const Machine& machine);
Machine machine_from_json(const Json& json);

// Parses text (comments allowed) and throws Error(usage) with line and column when it is no JSON.
Json parse_json(const std::string& text, const std::string& what);

// `status --json`: the machine, plus "taken_at", "observations", "claims" (per GPU) and "queue".
Json status_json(const Snapshot& snapshot, const std::vector<Holding>& holdings, const std::vector<Waiting>& queue);
Json to_json(const Holding& holding);
Json to_json(const Waiting& waiting);
Json to_json(const Gpu& gpu);
Gpu gpu_from_json(const Json& json, const std::string& path);

}  // namespace thole::model
