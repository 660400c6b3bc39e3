// The one line of the site's configuration that thole itself writes: [state] group.
#pragma once

#include <string>

namespace thole::wire {

// The document with this group, or without one (""); everything else in it stays as it is, comments too. Throws Error(usage)
// when it is no TOML, Error(unavailable) when its [state] is written in a way that this cannot change.
std::string with_state_group(const std::string& text, const std::string& group, const std::string& path);

// Does it to the file, which is made with its folder where there is none. Throws Error(unavailable) when that fails.
void write_state_group(const std::string& path, const std::string& group);

// For people: what the file should say.
std::string state_group_line(const std::string& group);

}  // namespace thole::wire
