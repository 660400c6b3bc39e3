// Would the queue's file be refused by whoever opens it? Asked without opening it as they do: nothing is made and nothing
// changed.
#pragma once

#include <string>

namespace thole::host {

// There is a file, and not just an empty one.
bool holds_something(const std::string& path);

// Throws what they throw. Says nothing of a file that is not there, or empty: the first submit makes it.
void check_queue_file(const std::string& directory);

}  // namespace thole::host
