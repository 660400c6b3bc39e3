// Is there space left in the system's directory, and who took it?
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace thole::host {

// Is the file system of this directory nearly full?
bool is_nearly_full(const std::string& directory);

// A sentence when the file system of this directory is, naming what has most of it; "" otherwise.
// Full, it costs notes (sharing, names) and order; exclusive claims go on.
std::string nearly_full(const std::string& directory);

// A sentence for each process that has much of this file system open although it is deleted. Root sees them all.
std::vector<std::string> open_though_deleted(std::uint64_t device);

}  // namespace thole::host
