// What `run` and `claim` say on stderr, and `--dry-run` on stdout.
#pragma once

#include <string>
#include <vector>

#include "app/claim/run.hpp"
#include "base/error.hpp"
#include "model/json.hpp"

namespace thole::cli {

// "3 (A100-SXM4-80GB)", "0,1 (A100-SXM4-80GB)", "none"
std::string name_units(const std::vector<model::Unit>& units, const std::vector<std::size_t>& chosen,
                       const model::Snapshot& snapshot);

// Where a waiter stands, or would stand who does not wait; `why` as app::why_waiting gives it.
std::string render_waiting(const std::vector<std::string>& why, bool waits);
model::Json waiting_to_json(const model::Wait& wait, const std::vector<std::string>& why);

// --dry-run: the choice with its reasons and the variables, or what it would wait for.
std::string render_preview(const app::Preview& preview, const std::optional<app::Binding>& binding,
                           const plan::Variables& variables, const model::Snapshot& snapshot,
                           const std::vector<std::string>& why, std::size_t columns);
model::Json preview_to_json(const app::Preview& preview, const std::optional<app::Binding>& binding,
                            const plan::Variables& variables, const model::Snapshot& snapshot,
                            const std::vector<std::string>& why);

// --status-file: who ended, and why ("thole/ended/1").
model::Json ended_to_json(const port::Ended& ended);
model::Json ended_to_json(const Error& error);

}  // namespace thole::cli
