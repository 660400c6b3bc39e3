// The bare operation beside which launchers are measured: /bin/true through posix_spawn, as many at once as there are slots, and
// nothing else. Usage: bench_spawn_loop TASKS SLOTS
#include <spawn.h>
#include <sys/wait.h>

#include <cstdlib>

extern char** environ;

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  char program[] = "/bin/true", item[] = "1";
  char* const words[] = {program, item, nullptr};
  const int tasks = std::atoi(argv[1]), slots = std::atoi(argv[2]);
  int running = 0;
  for (int started = 0; started < tasks || running > 0;) {
    pid_t pid = -1;
    if (started < tasks && running < slots) {
      if (::posix_spawn(&pid, program, nullptr, nullptr, words, environ) != 0) return 1;
      ++started;
      ++running;
    } else if (::waitpid(-1, nullptr, 0) > 0) {
      --running;
    }
  }
}
