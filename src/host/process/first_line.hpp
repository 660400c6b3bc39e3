// The first line of a script, "#!/usr/bin/env python3", as the kernel reads it.
#pragma once

#include <optional>
#include <string>

namespace thole::host {

struct FirstLine {
  std::string interpreter, argument;             // "/bin/sh\r" as it stands; all of the rest is one argument
  bool windows = false;                          // it ends in \r
};

// Nothing of what is no script or closed to us; nor of a name too long for the kernel, for then sh reads the script.
std::optional<FirstLine> first_line_of(const std::string& path);

}  // namespace thole::host
