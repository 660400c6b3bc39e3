// What a job is told so that its own thole finds the same machine and claims from wherever it runs.
#pragma once

#include <map>
#include <string>

#include "wire/settings.hpp"

namespace thole::wire {

// A path that means the same from every directory: absolute, without "." and "..". No link is followed.
std::string from_anywhere(const std::string& path);

// The variables for it: none where nothing was said.
std::map<std::string, std::string> carried(const Settings& settings);

}  // namespace thole::wire
