// --help, in 80 columns, from the table.
#pragma once

#include <string>

#include "cli/table.hpp"

namespace thole::cli {

std::string general_help();
std::string help_of(const Verb& verb);

// Pieces shared with the man pages and docs/commands.md.
std::string synopsis(const Verb& verb);      // "thole run [OPTION...] COMMAND [ARGUMENT...]"
std::string spelling(const Option& option);  // "-g, --gpus N"
// Lines of at most `columns`: the first begins at column `start`, the others at `indent`.
std::string wrap(std::string_view text, std::size_t columns, std::size_t indent, std::size_t start);
std::vector<std::string_view> groups();  // headings in order

}  // namespace thole::cli
