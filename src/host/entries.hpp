// What is in an open directory, read through a descriptor of its own.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace thole::host {

// Its names but "." and "..", until `visit` says false. None where it cannot be read.
void for_each_entry(int directory, const std::function<bool(const char* name)>& visit);

std::vector<std::string> entries_in(int directory);

}  // namespace thole::host
