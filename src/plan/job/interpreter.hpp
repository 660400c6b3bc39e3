// Commands that are an interpreter's: where their script is, and whether they name one at all.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace thole::plan {

// "bash", "python3.11": by its last name, wherever it lies.
bool is_interpreter(std::string_view program);

// The script that a command runs, as named from where the command starts: behind an interpreter and its options, also where a
// program that only starts another stands before it (`nice -n 5 python3 -u train.py`). Nothing where it is another command, or
// code is given in the line (`-c`, `-m`).
std::optional<std::string> script_in(std::span<const std::string> command);

// Whether it would read its script from the standard input, which is empty for a job. An option's value may be a script, so
// only what cannot mean anything else counts.
bool awaits_script(std::span<const std::string> command);

}  // namespace thole::plan
