// Preloaded into `thole claim`: the process that keeps the claim stops as the last thing it does.
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

extern "C" [[noreturn, gnu::visibility("default")]] void _exit(int status) {
  char name[16] = "";
  ::prctl(PR_GET_NAME, name);
  if (std::strncmp(name, "thole-holder", 12) == 0) ::raise(SIGSTOP);
  for (;;) ::syscall(SYS_exit_group, status);
}
