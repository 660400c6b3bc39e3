// How this works. A loop (`while read x; do thole submit …; done < list`), a script or cron leaves its own stdin to what it
// runs: there the list stands on ours, and nothing is lost. What was meant for this command (`data | thole submit …`, `< data`)
// the process above us does not have as its own.
#include "cli/lost_input.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/same_file.hpp"
#include "base/text.hpp"

namespace thole::cli {

namespace {

constexpr int moment_ms = 200;                   // in which somebody who writes into a pipe has begun, or closed it

bool has_something(const struct stat& input) {
  if (S_ISREG(input.st_mode)) return ::lseek(STDIN_FILENO, 0, SEEK_CUR) < input.st_size;
  int waiting = 0;
  return S_ISFIFO(input.st_mode) && ::ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 0;
}

// False also where that cannot be seen: another user's process (sshd, cron).
bool is_ours_alone(const struct stat& input) {
  struct stat above {};
  return ::stat(fmt::format("/proc/{}/fd/0", ::getppid()).c_str(), &above) == 0 && !is_one_file(input, above);
}

}  // namespace

bool may_be_given_input() {
  struct stat input {};
  if (::fstat(STDIN_FILENO, &input) != 0 || !is_ours_alone(input)) return false;
  if (!S_ISFIFO(input.st_mode)) return has_something(input);
  pollfd pipe{STDIN_FILENO, POLLIN, 0};
  return ::poll(&pipe, 1, moment_ms) == 0 || has_something(input);
}

bool loses_input(std::span<const std::string> files) {
  struct stat input {};
  if (::fstat(STDIN_FILENO, &input) != 0 || !has_something(input) || !is_ours_alone(input)) return false;
  return std::ranges::none_of(files, [&](const std::string& path) {
    struct stat there {};
    return path == "-" || (::stat(path.c_str(), &there) == 0 && is_one_file(there, input));
  });
}

}  // namespace thole::cli
