// Input that somebody gave to a command which does not read it.
#pragma once

#include <span>
#include <string>

namespace thole::cli {

// Whether something waits on stdin that was meant for this command, and none of these files ("-": stdin itself) is where it
// comes from. Never waits: what nobody has written yet is not seen.
bool loses_input(std::span<const std::string> files);

// Whether stdin is a pipe to this command alone whose other end is open, or has something in it; or such a file. Waits a bit.
bool may_be_given_input();

}  // namespace thole::cli
