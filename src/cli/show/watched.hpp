// A terminal that shows one thing again and again until somebody has seen enough: on a screen of its own, left by q.
#pragma once

#include <termios.h>

#include <csignal>
#include <initializer_list>
#include <optional>
#include <string>

#include "base/fd.hpp"
#include "base/time.hpp"
#include "cli/context.hpp"

namespace thole::cli {

// On a terminal: its second screen, with keys as they are typed, from construction to destruction; what stood there before is
// back afterwards, and while it is stopped (Ctrl-Z). Elsewhere nothing. Construct it while no other thread runs.
class Watched {
 public:
  explicit Watched(Context& context);
  ~Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  // Draws over what was drawn before, as the terminal is now; elsewhere prints it after an empty line.
  Screen screen() const;
  void show(const std::string& text, const Screen& screen);
  bool is_blank() const { return on_terminal_ && !drawn_; }   // nothing was shown yet, or since it goes on after a stop

  // Waits for one of `fds`, as long as that, or until it goes on after a stop: false when q was typed. Throws
  // Error(interrupted) for Ctrl-C and TERM; ends the program by SIGPIPE once nobody reads what it writes.
  bool wait(std::initializer_list<int> fds, Millis patience);

 private:
  void enter();
  void leave();
  void obey_stop();
  [[noreturn]] void end_with_its_reader();

  Context& context_;
  int interruption_;
  bool drawn_ = false, on_terminal_;
  Fd stops_;                       // TSTP and CONT, which are blocked
  sigset_t mask_before_;
  std::optional<termios> before_;
};

}  // namespace thole::cli
