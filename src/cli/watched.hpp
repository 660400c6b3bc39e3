// A terminal that shows one thing again and again until somebody has seen enough: on a screen of its own, left by q.
#pragma once

#include <termios.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "base/time.hpp"
#include "cli/context.hpp"

namespace thole::cli {

// On a terminal: its second screen, with keys as they are typed, from construction to destruction; what stood there before is
// back afterwards. Elsewhere nothing.
class Watched {
 public:
  explicit Watched(Context& context);
  ~Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  // Draws over what was drawn before, as the terminal is now; elsewhere prints it after an empty line.
  Screen screen() const;
  void show(const std::string& text, const Screen& screen);

  // Waits for one of `fds`, or as long as that: false when q was typed. Throws Error(interrupted) for Ctrl-C and TERM.
  bool wait(std::initializer_list<int> fds, Millis patience);

 private:
  Context& context_;
  int interruption_;
  bool drawn_ = false;
  std::optional<termios> before_;
};

}  // namespace thole::cli
