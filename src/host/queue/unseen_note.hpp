// What the runner of a queue does not see of the tasks that dead lanes have left, told to all who look at the queue: the file
// `unseen` in its directory. Each runner removes the one before it, and writes its own once it has looked; so the file speaks
// for the runner that sits, if any does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "port/lanes.hpp"

namespace thole::host {

struct UnseenNote {
  std::uint64_t pid_namespace = 0, user_namespace = 0;   // of the runner; the latter 0: the first one
  std::vector<port::UnseenRun> runs;
};

// Nothing: there is none, or it is being written.
std::optional<UnseenNote> read_unseen(const std::string& path);

// Of a runner in this process. A disk that has no room for it keeps nothing from going on.
void write_unseen(const std::string& path, const std::vector<port::UnseenRun>& runs);

// Whether this process would see what that runner does not.
bool is_seen_here(const UnseenNote& note, const port::UnseenRun& run);

}  // namespace thole::host
