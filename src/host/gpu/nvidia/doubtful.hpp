// The GPUs, by the library's index, that did not answer the last time anybody of this user asked: they are read last and get
// little patience.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace thole::host::nvidia {

// Of a directory that is this user's alone; "" remembers nothing.
std::vector<std::uint32_t> recall_doubtful(const std::string& directory);
void note_doubtful(const std::string& directory, const std::set<std::uint32_t>& gpus);

}  // namespace thole::host::nvidia
