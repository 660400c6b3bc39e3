// Where the runner of a queue was started, as far as its jobs have that from it and cannot have it otherwise.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace thole::host {

// What its jobs have and this process has not: "a nice value of 15", "at most 77 of cpu (ulimit)".
std::vector<std::string> had_from_runner(pid_t runner);

// Throws Error(unavailable) where one of these files of ours is not the same one there.
void check_same_files(pid_t runner, const std::vector<std::string>& paths);

// Whether what is to be started finds the same there as here: each of these files, or none here nor there.
bool finds_same_files(pid_t runner, const std::vector<std::string>& paths);

}  // namespace thole::host
