// What is said of a command that cannot be run: which part of it is wrong, and what was probably meant.
#pragma once

#include <string>

namespace thole::host {

// As env(1): 127 when the command does not exist, 126 when it is there and cannot be run. `reason` is what exec said, `path` is
// $PATH, and `cwd` where the command would start ("": here).
[[noreturn]] void throw_cannot_run(const std::string& program, const std::string& cwd, const std::string& path, int reason);

// Throws Error(not_found) for a script that exec would find no interpreter for. The file at `path` is there.
void refuse_without_interpreter(const std::string& path);

}  // namespace thole::host
