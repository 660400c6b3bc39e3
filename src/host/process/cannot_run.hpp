// What is said of a command that cannot be run: which part of it is wrong, and what was probably meant.
#pragma once

#include <string>

namespace thole::host {

// As env(1): 127 when the command does not exist, 126 when it is there and cannot be run. `reason` is what exec said, `path` is
// $PATH, and `cwd` where the command would start ("": here).
[[noreturn]] void throw_cannot_run(const std::string& program, const std::string& cwd, const std::string& path, int reason);

// Throws for a script whose interpreter, or the program that its `#!/usr/bin/env` starts, is missing (not_found) or cannot be
// run (not_executable): there exec would fail, or what it starts. `cwd` and `path` as above.
void refuse_without_interpreter(const std::string& script, const std::string& cwd, const std::string& path);

}  // namespace thole::host
