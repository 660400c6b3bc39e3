#include "cli/watched.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/stream.hpp"
#include "cli/output.hpp"

namespace thole::cli {

Watched::Watched(Context& context) : context_(context), interruption_(context.wire.interruption()) {
  if (!context.screen.terminal() || context.invocation.global.json) return;
  termios keys{};
  if (::isatty(STDIN_FILENO) && ::tcgetattr(STDIN_FILENO, &keys) == 0) {
    before_ = keys;
    keys.c_lflag &= static_cast<tcflag_t>(~(ICANON | ECHO));
    ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  put_bytes(STDOUT_FILENO, "\x1b[?1049h\x1b[?25l");  // the second screen, without a cursor
}

Watched::~Watched() {
  if (before_) ::tcsetattr(STDIN_FILENO, TCSANOW, &*before_);
  if (context_.screen.terminal() && !context_.invocation.global.json) put_bytes(STDOUT_FILENO, "\x1b[?25h\x1b[?1049l");
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

bool Watched::wait(std::initializer_list<int> fds, Millis patience) {
  const SteadyTime end = std::chrono::steady_clock::now() + patience;
  std::vector<pollfd> polled{{interruption_, POLLIN, 0}, {before_ ? STDIN_FILENO : -1, POLLIN, 0}};
  for (const int fd : fds) polled.push_back({fd, POLLIN, 0});
  for (;;) {
    const int ready = ::poll(polled.data(), polled.size(), poll_timeout(end, std::chrono::steady_clock::now()));
    if (ready < 0 && errno != EINTR) throw Error(ErrorCode::internal, "cannot wait").because(errno);
    if (ready == 0) return true;
    if (ready < 0) continue;
    if (polled[0].revents != 0) throw Error(ErrorCode::interrupted, "interrupted");
    if (polled[1].revents != 0) {
      char key = 0;
      if (::read(STDIN_FILENO, &key, 1) <= 0) polled[1].fd = -1;  // its other end has gone: no more keys
      else if (key == 'q' || key == 'Q') return false;
    }
    if (std::any_of(polled.begin() + 2, polled.end(), [](const pollfd& one) { return one.revents != 0; })) return true;
  }
}

}  // namespace thole::cli
