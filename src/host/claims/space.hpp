// Is there space left in the system's directory, and who took it?
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "host/claims/allowance.hpp"

namespace thole::host {

// Is the file system of this directory nearly full?
bool is_nearly_full(const std::string& directory);

// A sentence when the file system of this directory is, naming what has most of it; "" otherwise.
// Full, it costs notes (sharing, names) and order; exclusive claims go on.
std::string nearly_full(const std::string& directory);

// A sentence when it is, and most of what fills it has no name there; "" otherwise.
std::string filled_unseen(const std::string& directory);

// A sentence for each user whose processes have much of this file system open although it is deleted. Root sees them all.
// `owner`, `shared_file`: whose files of no more bytes do not count, for init has made them anew.
std::vector<std::string> open_though_deleted(std::uint64_t device, uid_t owner, std::uint64_t shared_file);

// Whoever may write to a file may give it attributes, which take of its file system what no size tells. None of ours has any.
// False where some are left: they are too many to be listed, or come as fast as they go.
bool clear_attributes(int fd, Allowance& allowance);
constexpr std::chrono::milliseconds for_attributes{500};

}  // namespace thole::host
