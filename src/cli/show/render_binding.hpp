// How processes are bound, for people: the plan with its reasons, and what of it is not to be had.
#pragma once

#include <string>
#include <vector>

#include "app/claim/bind_rank.hpp"

namespace thole::cli {

// Lines for --dry-run and -v, each indented by two blanks: CPUs, memory, NICs, threads, and what differs.
std::vector<std::string> describe_binding(const app::Binding& binding, std::size_t rank);

// All ranks, for `bind --dry-run`.
std::string render_ranks(const app::Binding& binding);

// What the kernel gave: "CPUs 0-3, memory bind on node 0"
std::string describe(const model::Binding& got);

// `bind --pid`
std::string render_rebound(const app::Rebound& rebound, pid_t pid);

}  // namespace thole::cli
