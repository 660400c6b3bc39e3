#include "cli/show/watched.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/standard.hpp"
#include "base/stop_self.hpp"
#include "base/stream.hpp"
#include "cli/output.hpp"

namespace thole::cli {

Watched::Watched(Context& context)
    : context_(context), interruption_(context.wire.interruption()),
      on_terminal_(context.screen.terminal() && !context.invocation.global.json) {
  if (!on_terminal_) return;
  termios keys{};
  if (is_terminal(STDIN_FILENO) && ::tcgetattr(STDIN_FILENO, &keys) == 0) before_ = keys;
  sigset_t stops;
  sigemptyset(&stops);
  for (const int signal : {SIGTSTP, SIGCONT}) sigaddset(&stops, signal);
  ::pthread_sigmask(SIG_BLOCK, &stops, &mask_before_);
  stops_ = Fd(above_standard(::signalfd(-1, &stops, SFD_CLOEXEC | SFD_NONBLOCK)));
  enter();
}

Watched::~Watched() {
  if (!on_terminal_) return;
  leave();
  ::pthread_sigmask(SIG_SETMASK, &mask_before_, nullptr);
}

// The keys first: in the background that stops us (TTOU) before anything is written over the shell's screen.
void Watched::enter() {
  if (before_) {
    termios keys = *before_;
    keys.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO));
    ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  put_bytes(STDOUT_FILENO, "\x1b[?1049h\x1b[?25l");  // the second screen, without a cursor
  drawn_ = false;
}

void Watched::leave() {
  if (before_) ::tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
  put_bytes(STDOUT_FILENO, "\x1b[?25h\x1b[?1049l");
}

// Stops as Ctrl-Z does, with the shell's screen and keys in place, and goes on where it was; set up again also after a SIGSTOP.
void Watched::obey_stop() {
  signalfd_siginfo got;
  bool stop = false;
  while (::read(stops_.get(), &got, sizeof got) == sizeof got) stop = got.ssi_signo == SIGTSTP;
  if (stop) {
    leave();
    stop_self(SIGTSTP);
  }
  enter();
}

Screen Watched::screen() const {
  Screen now = screen_of(STDOUT_FILENO, !context_.screen.colors);  // the window may have been resized
  if (!context_.screen.terminal()) now.rows = 0;
  return now;
}

void Watched::show(const std::string& text, const Screen& screen) {
  if (screen.terminal()) context_.draw(screen, text, !drawn_);
  else context_.print((drawn_ ? "\n" : "") + text);
  drawn_ = true;
}

// A reader that has gone (`| head -1`) ends this as it ends any program that writes, though nothing is to be written now.
void Watched::end_with_its_reader() {
  ::raise(SIGPIPE);
  throw Error(ErrorCode::internal, "cannot write the result").because(EPIPE);   // who started us ignores the signal
}

bool Watched::wait(std::initializer_list<int> fds, Millis patience) {
  const SteadyTime end = std::chrono::steady_clock::now() + patience;
  std::vector<pollfd> polled{{interruption_, POLLIN, 0}, {before_ ? STDIN_FILENO : -1, POLLIN, 0}, {stops_.get(), POLLIN, 0},
                             {STDOUT_FILENO, 0, 0}};
  for (const int fd : fds) polled.push_back({fd, POLLIN, 0});
  for (;;) {
    const int ready = ::poll(polled.data(), polled.size(), poll_timeout(end, std::chrono::steady_clock::now()));
    if (ready < 0 && errno != EINTR) throw Error(ErrorCode::internal, "cannot wait").because(errno);
    if (ready == 0) return true;
    if (ready < 0) continue;
    if (polled[0].revents != 0) throw Error(ErrorCode::interrupted, "interrupted");
    if (polled[3].revents != 0) end_with_its_reader();
    if (polled[2].revents != 0) {
      obey_stop();
      return true;
    }
    if (polled[1].revents != 0) {
      char key = 0;
      if (::read(STDIN_FILENO, &key, 1) <= 0) polled[1].fd = -1;  // its other end has gone: no more keys
      else if (key == 'q' || key == 'Q') return false;
    }
    if (std::any_of(polled.begin() + 4, polled.end(), [](const pollfd& one) { return one.revents != 0; })) return true;
  }
}

}  // namespace thole::cli
