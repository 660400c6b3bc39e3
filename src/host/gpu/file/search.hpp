// Where a simulated machine's name leads: a file given by path, a shipped one, or nowhere (then it may be a shorthand).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace thole::host {

// The directories of shipped machines, first found wins: `first` (THOLE_MACHINES) if given, ../share/thole/machines of the
// directory of `program` (installed), "machines" beside it (a build folder).
std::vector<std::string> machine_directories(const std::string& first, const std::string& program);

// The names of the machines in them, sorted, without ".json".
std::vector<std::string> shipped_machines(const std::vector<std::string>& directories);

// The path of the machine: the name itself when it contains '/' or ends in ".json", else the shipped file of that name.
std::optional<std::string> machine_path(const std::string& name, const std::vector<std::string>& directories);

}  // namespace thole::host
