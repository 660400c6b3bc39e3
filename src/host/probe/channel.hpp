// The two descriptors that a probe talks over, put out of reach of the library it loads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/fd.hpp"

namespace thole::host {

// Where a probe has its copy of the open file whose lock says that somebody is asking (runner.hpp): below 10, where the channel
// goes, and not a standard stream. A probe that closes it lets others ask.
inline constexpr int lock_fd_in_probe = 9;

// How this works: a request is one line; the answer is any number of lines and then a line with a lone ".". The channel starts
// as descriptors 0 and 1 of the probe; it is moved above 9 and /dev/null takes the place of 0, 1 and 2, because libraries print
// to them (NVIDIA's stub library announces itself on stdout).
class ProbeChannel {
 public:
  static ProbeChannel take_over_stdio();

  int read_fd() const { return in_.get(); }
  // Takes what can be read now. False when the other side has hung up.
  bool fill();
  std::optional<std::string> next_line();                  // a whole line out of what was taken
  bool send(std::string_view line) const;                  // appends the newline; one write
  bool end_answer() const { return send("."); }

 private:
  Fd in_, out_;
  std::string buffer_;
};

}  // namespace thole::host
