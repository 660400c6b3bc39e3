/* Claims two GPUs, waiting at most ten minutes or until Ctrl-C, and runs a command on them.
 *
 *     cc claim.c -o claim $(pkg-config --cflags --libs thole)
 *     ./claim python train.py
 *     THOLE_MACHINE=dgx-a100 ./claim env        # on a simulated machine
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <thole/thole.h>
#include <unistd.h>

static int failed(thole_error *error) {
  fprintf(stderr, "claim: %s\n", thole_error_text(error));
  const int status = thole_error_code(error);
  thole_error_free(error);
  return status;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: claim COMMAND...\n");
    return THOLE_USAGE;
  }

  /* Ctrl-C while waiting: a descriptor that becomes readable. */
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  sigprocmask(SIG_BLOCK, &interrupt, NULL);
  const int interrupted = signalfd(-1, &interrupt, SFD_CLOEXEC);

  thole_error *error = NULL;
  thole_machine *machine = thole_open(NULL, &error);
  if (!machine) return failed(error);
  thole_claim *claim = thole_claim_gpus(machine, "{\"gpus\": 2}", 10 * 60 * 1000, interrupted, &error);
  if (!claim) {
    thole_close(machine);
    return failed(error);
  }
  for (const char *const *uuid = thole_claim_uuids(claim); *uuid; ++uuid) fprintf(stderr, "claim: got %s\n", *uuid);
  thole_claim_set_environment(claim);

  const pid_t child = fork();
  if (child == 0) {
    sigprocmask(SIG_UNBLOCK, &interrupt, NULL);
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);

  thole_claim_release(claim);
  thole_close(machine);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
