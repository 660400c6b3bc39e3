// What commands show: text for people, and the JSON that says the same.
#pragma once

#include <string>
#include <vector>

#include "app/show/overview.hpp"
#include "cli/show/terminal.hpp"
#include "model/json.hpp"

namespace thole::cli {

// `status`: the table, what is wrong, the queue, the sum.
std::string render_status(const app::Overview& overview, const Screen& screen);

// What can be said before the driver has answered: who holds what, and the queue.
std::string render_claims(const app::Overview& overview, const Screen& screen);

// `status --list`: index, UUID and name, tab-separated.
std::string render_list(const app::Overview& overview);

// `status GPU...`: all that is known of these GPUs (indices into the machine).
std::string render_gpus(const app::Overview& overview, const app::NamedGpus& named, const Screen& screen);

// Pieces.
std::string short_model(std::string_view model);                                 // "NVIDIA A100-SXM4-80GB" -> "A100-SXM4-80GB"
std::string brief_model(const std::string& name);                                // … -> "A100-80GB"
Ink ink_of(app::State state);
std::string figure(const model::Metric<double>& metric, std::string_view unit);  // "97%"; "-" unsupported, "?" not known
std::string memory_use(const model::Metric<std::uint64_t>& used, std::optional<std::uint64_t> total);  // "11.2/80G"
std::string holder_name(const model::Holding& holding);  // "anna"; "?anna" when the record could not be verified

std::string sum_of(const app::Overview& overview);                                // "2 free, 5 claimed, 1 sick; yours: 0,3"
std::string outer_mask(const app::Overview& overview, const Screen& screen);      // what an outer allotment leaves, a paragraph
std::string claims_problem(const app::Overview& overview, const Screen& screen);  // a paragraph, or nothing
std::string problems_of(const app::Overview& overview, const Screen& screen);     // of drivers and claims, paragraphs

}  // namespace thole::cli
