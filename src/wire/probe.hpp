// `thole __probe NAME`: this program as the process that calls a vendor's library.
#pragma once

#include <string>
#include <vector>

namespace thole::wire {

int run_probe(const std::vector<std::string>& words);

// `thole __placeholder LIBRARY UUID...`: … that keeps a context on claimed GPUs.
int run_placeholder(const std::vector<std::string>& words);

}  // namespace thole::wire
