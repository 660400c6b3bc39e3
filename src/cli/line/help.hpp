// --help, in 80 columns or what a narrower terminal has, from the table.
#pragma once

#include <string>

#include "cli/line/table.hpp"

namespace thole::cli {

inline constexpr std::size_t page_width = 80;
std::string general_help(std::size_t columns = page_width);
std::string help_of(const Verb& verb, std::size_t columns = page_width);

// Pieces shared with the man pages and docs/commands.md.
std::string synopsis(const Verb& verb);      // "thole run [OPTION...] COMMAND [ARGUMENT...]"
std::string spelling(const Option& option);  // "-g, --gpus N"
std::vector<std::string_view> groups();  // headings in order

}  // namespace thole::cli
