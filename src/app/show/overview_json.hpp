// The JSON of `status` and of the C ABI's snapshot: the machine's own schema, and what was concluded from it (docs/json.md).
#pragma once


#include "app/show/overview.hpp"
#include "model/json.hpp"

namespace thole::app {

// `status --json`
model::Json status_to_json(const Overview& overview);

// `status --list --json`
model::Json list_to_json(const Overview& overview);

// `status GPU... --json`: indices into the machine
model::Json gpus_to_json(const Overview& overview, const NamedGpus& named);

}  // namespace thole::app
