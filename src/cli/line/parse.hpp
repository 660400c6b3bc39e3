// From the words of the command line to an Invocation, by the table.
//
// How this works. Words are read left to right. Before the verb only global options may stand; after it also the verb's own
// and, where it takes a request, the request's. `--gpus 2`, `--gpus=2`, `-g 2`, `-g2` are the same; flags may be clustered
// (`-qv`); of an option given twice the later wins, so that aliases can be overridden. For `run` the options end at the
// first other word: everything from there on is the command, whatever it looks like. `--` ends them too.
#pragma once

#include <span>
#include <string_view>

#include "cli/line/invocation.hpp"
#include "cli/line/table.hpp"

namespace thole::cli {

// `defaults` is the request before any option. Invocation::verb stays null when no verb was typed.
// Throws Error(usage) that names the nearest known word. With --help or --version among the options, what else is
// missing or contradictory is not complained about.
Invocation parse(std::span<const std::string_view> arguments, const model::Request& defaults = {});

// What a line that parse() refuses says otherwise: which command it is, and how its errors are to be told.
Invocation as_far_as_read(std::span<const std::string_view> arguments);

}  // namespace thole::cli
