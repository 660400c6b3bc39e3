// Where a result goes that somebody has named: a file, what a link leads to, or what is open or written to as it is.
#pragma once

#include <string>
#include <string_view>

#include "base/named_file.hpp"
#include "cli/context.hpp"

namespace thole::cli {

// Throws Error(usage) where a result would go into a file that is read for it, whatever its names: the machine's, or `input`
// ("-" is stdin, "" none). Written anew, it would be lost.
void refuse_input_as_result(Context& context, std::string_view option, const std::string& name, const std::string& input = "");

// Before hours of work: throws what write_result() would, as far as it can be known. What lies there stays as it is.
void try_result(const std::string& name);

// A file whole or not at all; else as it comes ("-" is stdout). Links are followed by hand: a rename would replace the first of
// them. Throws Error(unavailable) of what cannot be written to. `how`: what is no file.
void write_result(const std::string& name, std::string_view text, Appending how = Appending::to_all);

}  // namespace thole::cli
