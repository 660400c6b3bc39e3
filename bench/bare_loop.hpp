// What no launcher can beat: /bin/true through posix_spawn, as many at once as there are slots, and nothing else.
#pragma once

#include <spawn.h>
#include <sys/wait.h>

extern char** environ;

namespace thole::bench {

// Whether all could be started. /bin/true with a word costs 1.5 times what it costs without one (it sets a locale), so it gets
// one here as from every launcher.
inline bool bare_loop(unsigned tasks, unsigned slots) {
  char program[] = "/bin/true", item[] = "1";
  char* const words[] = {program, item, nullptr};
  unsigned running = 0;
  for (unsigned started = 0; started < tasks || running > 0;) {
    pid_t pid = -1;
    if (started < tasks && running < slots) {
      if (::posix_spawn(&pid, program, nullptr, nullptr, words, environ) != 0) return false;
      ++started;
      ++running;
    } else if (::waitpid(-1, nullptr, 0) > 0) {
      --running;
    }
  }
  return true;
}

}  // namespace thole::bench
