// The one JSON schema of thole: machine files, --json output and the C ABI all go through these functions.
// Every field is described in docs/json.md.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "model/claim.hpp"
#include "model/machine.hpp"
#include "model/request.hpp"

namespace thole::model {

using Json = nlohmann::ordered_json;

inline constexpr const char* machine_schema = "thole/machine/1";

// A machine to and from "thole/machine/1". Reading is strict about types and tolerant of unknown fields; a mistake
// throws Error(usage) about `what` that names the path ("gpus[2].memory_mib: expected a whole number").
Json to_json(const Machine& machine);
Machine machine_from_json(const Json& json, const std::string& what = "");

// Parses text (comments allowed) and throws Error(usage) with line and column when it is no JSON.
Json parse_json(const std::string& text, const std::string& what);

// A request on top of `defaults`. Strict: an unknown field is a mistake too, answered with the nearest known one.
Request request_from_json(const Json& json, Request defaults = {});

// As text. Everything beyond ASCII is escaped, so that no name or command line of a stranger can steer a terminal, and
// nothing can make it fail. `indent` -1 writes one line.
std::string dump(const Json& json, int indent = 2);

// `status --json`: the machine, plus "taken_at", "observations", "claims" (per unit) and "queue" (in order of arrival).
Json status_json(const Snapshot& snapshot, const std::vector<Holding>& holdings, const std::vector<Waiting>& queue);
Json to_json(const Holding& holding);
Json to_json(const Waiting& waiting);
Json to_json(const Observation& observation);

// Parts of a machine, as the probe streams them.
Json to_json(const Gpu& gpu);
Gpu gpu_from_json(const Json& json, const std::string& path);
Json to_json(const Use& use);

}  // namespace thole::model
