// Machines from other programs' files, for `capture --from`.
#pragma once

#include <string>

#include "model/machine.hpp"
#include "wire/settings.hpp"

namespace thole::wire {

// `path`: a file of one of the kinds that host/import/import.hpp names, or a folder with a machine's /sys and /proc.
// Throws Error(usage) when it is none of them. Sentences on what is read and may be wrong are added to `doubts`.
model::Machine import_machine(const Settings& settings, const std::string& path, std::vector<std::string>& doubts);

}  // namespace thole::wire
