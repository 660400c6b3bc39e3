/* The C ABI from plain C: every function, every error class, threads, forks, and nothing left behind. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <thole/thole.h>
#include <time.h>
#include <unistd.h>

static int failures;
static const char *current;

#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      fprintf(stderr, "%s:%d: %s: %s is false\n", __FILE__, __LINE__, current, #condition); \
      ++failures;                                                                         \
    }                                                                                     \
  } while (0)

static char directory[] = "/tmp/thole-capi-XXXXXX";
static char options[256];

static thole_machine *open_simulated(void) {
  thole_error *error = NULL;
  thole_machine *machine = thole_open(options, &error);
  if (!machine) {
    fprintf(stderr, "%s: %s\n", current, thole_error_text(error));
    exit(1);
  }
  return machine;
}

/* Claims that are expected to succeed. */
static thole_claim *must_claim(thole_machine *machine, const char *request, int64_t wait_ms) {
  thole_error *error = NULL;
  thole_claim *claim = thole_claim_gpus(machine, request, wait_ms, -1, &error);
  if (!claim) {
    fprintf(stderr, "%s: %s: %s\n", current, request ? request : "NULL", thole_error_text(error));
    exit(1);
  }
  return claim;
}

/* The class of the error that a claim gives; its text goes to `text`. */
static thole_code claim_error(thole_machine *machine, const char *request, int64_t wait_ms, int cancel_fd, char *text,
                              size_t size) {
  thole_error *error = NULL;
  thole_claim *claim = thole_claim_gpus(machine, request, wait_ms, cancel_fd, &error);
  CHECK(claim == NULL);
  const thole_code code = thole_error_code(error);
  if (text) snprintf(text, size, "%s", thole_error_text(error));
  thole_error_free(error);
  thole_claim_release(claim);
  return code;
}

static size_t count(const char *const *strings) {
  size_t n = 0;
  while (strings[n]) ++n;
  return n;
}

static const char *value_of(const thole_claim *claim, const char *name) {
  const size_t length = strlen(name);
  for (const char *const *entry = thole_claim_environment(claim); *entry; ++entry)
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  return NULL;
}

static size_t open_descriptors(void) {
  size_t n = 0;
  DIR *fds = opendir("/proc/self/fd");
  while (readdir(fds)) ++n;
  closedir(fds);
  return n;
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void null_handles_are_taken_where_something_ends(void) {
  thole_close(NULL);
  thole_claim_release(NULL);
  thole_error_free(NULL);
  thole_free(NULL);
  CHECK(thole_error_code(NULL) == THOLE_OK);
  CHECK(thole_error_errno(NULL) == 0);
  CHECK(strcmp(thole_error_text(NULL), "no error") == 0);
  CHECK(strcmp(thole_error_message(NULL), "") == 0);
  CHECK(strlen(thole_version()) >= 5);
}

static void a_loaded_library_is_known_by_its_name(void) {
  CHECK(thole_is_loaded("libthole.so") == 1 && thole_is_loaded("libthole.so.0") == 1 && thole_is_loaded("libc.so.6") == 1);
  CHECK(thole_is_loaded("libthole.so.1") == 0 && thole_is_loaded("thole.so") == 0);
  CHECK(thole_may_have_started("/no/such/root") == 0);
}

static void open_says_what_is_wrong(void) {
  const char *const wrong[] = {"{\"machine\": \"nonesuch\"}", "{\"machin\": \"dgx-a100\"}", "{\"machine\": 1}", "[]", "{"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    thole_error *error = NULL;
    CHECK(thole_open(wrong[i], &error) == NULL);
    CHECK(thole_error_code(error) == THOLE_USAGE);
    CHECK(strlen(thole_error_message(error)) > 0);
    CHECK(strstr(thole_error_text(error), thole_error_message(error)) != NULL);
    thole_error_free(error);
    CHECK(thole_open(wrong[i], NULL) == NULL); /* nobody wants to know */
  }
}

static void snapshot_is_the_json_of_status(void) {
  thole_machine *machine = open_simulated();
  thole_claim *claim = must_claim(machine, "{\"command\": \"a name for people\"}", 0);
  char *json = thole_snapshot(machine, NULL);
  CHECK(json && strstr(json, "\"schema\": \"thole/machine/1\""));
  CHECK(json && strstr(json, "A100"));
  CHECK(json && strstr(json, "\"units\"") && strstr(json, "\"claims_problem\": null"));
  CHECK(json && strstr(json, thole_claim_id(claim)));
  CHECK(json && strstr(json, "a name for people"));
  thole_free(json);
  thole_claim_release(claim);
  thole_close(machine);
}

static void a_failure_has_a_word_for_its_reason(void) {
  static const struct {
    const char *request, *reason;
  } cases[] = {{"{\"gpus\": 9}", "never-possible"}, {"{\"model\": \"H100\"}", "never-possible"}, {"{\"gpu\": 1}", "usage"},
               {"{\"on\": [\"99\"]}", "usage"}, {"{}", "busy"}};
  CHECK(strcmp(thole_error_reason(NULL), "") == 0);
  thole_machine *machine = open_simulated();
  thole_claim *all = must_claim(machine, "{\"gpus\": 8}", 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    thole_error *error = NULL;
    CHECK(thole_claim_gpus(machine, cases[i].request, 0, -1, &error) == NULL);
    CHECK(strcmp(thole_error_reason(error), cases[i].reason) == 0);
    thole_error_free(error);
  }
  thole_claim_release(all);
  thole_close(machine);
}

static void a_plan_answers_a_line(void) {
  thole_machine *machine = open_simulated();
  char *json = thole_plan_answer(machine, "{\"gpus\": 2, \"busy\": [0]}", NULL);
  CHECK(json && strstr(json, "\"gpus\":[2,3]"));
  thole_free(json);
  json = thole_plan_answer(machine, "{\"machine\": {\"gpus\": [{}]}, \"gpus\": 2}", NULL);
  CHECK(json && strstr(json, "\"error\"") && strstr(json, "unsatisfiable"));
  thole_free(json);
  thole_close(machine);
}

/* Package 0 of the simulated machine has the CPUs 0 to 63, which this host has some of. */
static void this_process_is_bound_as_a_rank(void) {
  thole_machine *machine = open_simulated();
  thole_error *error = NULL;
  char *json = thole_bind(machine, "{\"local_rank\": 1, \"ranks\": 2, \"bind\": {\"mode\": \"package\"}}", &error);
  CHECK(json && strstr(json, "\"schema\": \"thole/bound/1\"") && strstr(json, "\"rank\": 1"));
  thole_free(json);
  thole_error_free(error);
  static const char *const wrong[] = {"{\"local_rank\": 2, \"ranks\": 2}", "{\"rank\": 1}",
                                      "{\"bind\": {\"mode\": \"sideways\"}}", "{\"bind\": {\"mem\": \"bind\"}}"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    error = NULL;
    CHECK(thole_bind(machine, wrong[i], &error) == NULL);
    CHECK(thole_error_code(error) == THOLE_USAGE);
    thole_error_free(error);
  }
  thole_close(machine);
}

static void plan_claims_nothing(void) {
  thole_machine *machine = open_simulated();
  for (int i = 0; i < 2; ++i) {
    char *json = thole_plan(machine, "{\"gpus\": 8}", NULL);
    CHECK(json && strstr(json, "\"outcome\": \"take\"") && strstr(json, "\"explain\""));
    thole_free(json);
  }
  thole_claim *claim = must_claim(machine, NULL, 0);
  char *json = thole_plan(machine, "{\"gpus\": 8}", NULL);
  CHECK(json && strstr(json, "\"outcome\": \"wait\"") && strstr(json, "\"position\": 1"));
  CHECK(json && strstr(json, "\"why\": [") && strstr(json, "next in line"));
  thole_free(json);
  thole_error *error = NULL;
  CHECK(thole_plan(machine, "{\"gpus\": 9}", &error) == NULL);
  CHECK(thole_error_code(error) == THOLE_USAGE);
  thole_error_free(error);
  thole_claim_release(claim);
  thole_close(machine);
}

static void a_claim_names_its_gpus_and_its_environment(void) {
  thole_machine *machine = open_simulated();
  thole_claim *claim = must_claim(machine, "{\"gpus\": 2, \"on\": [\"2\", \"5\"]}", 0);
  CHECK(count(thole_claim_uuids(claim)) == 2);
  CHECK(strcmp(value_of(claim, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID") == 0);
  CHECK(strcmp(value_of(claim, "CUDA_VISIBLE_DEVICES"), "2,5") == 0);
  CHECK(strcmp(value_of(claim, "THOLE_CLAIM"), thole_claim_id(claim)) == 0);
  CHECK(strstr(thole_claim_json(claim), thole_claim_uuids(claim)[1]) != NULL);
  thole_claim_release(claim);

  claim = must_claim(machine, "{\"on\": [\"2\"], \"ids\": \"uuid\"}", 0);
  CHECK(strcmp(value_of(claim, "CUDA_VISIBLE_DEVICES"), thole_claim_uuids(claim)[0]) == 0);
  thole_claim_release(claim);

  claim = must_claim(machine, "{\"not_started\": true}", 0); /* this process is on no GPU */
  thole_claim_release(claim);

  claim = must_claim(machine, "{\"gpus\": 0}", 0);
  CHECK(count(thole_claim_uuids(claim)) == 0);
  CHECK(strcmp(value_of(claim, "CUDA_VISIBLE_DEVICES"), "") == 0);
  thole_claim_release(claim);
  thole_close(machine);
}

static void the_environment_is_given_to_this_process(void) {
  const pid_t child = fork(); /* apart: the variables would narrow the tests that follow */
  if (child == 0) {
    setenv("ROCR_VISIBLE_DEVICES", "0", 1);
    thole_machine *machine = thole_open(options, NULL);
    unsetenv("ROCR_VISIBLE_DEVICES");
    thole_claim *claim = machine ? thole_claim_gpus(machine, "{\"on\": [\"3\"]}", 0, -1, NULL) : NULL;
    if (!claim || thole_claim_set_environment(claim) != 0) _exit(1);
    const int given = strcmp(getenv("CUDA_VISIBLE_DEVICES"), "3") == 0;
    _exit(given && strcmp(getenv("THOLE_CLAIM"), thole_claim_id(claim)) == 0 ? 0 : 2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_request_that_cannot_be_met_is_refused_at_once(void) {
  thole_machine *machine = open_simulated();
  char text[512];
  CHECK(claim_error(machine, "{\"gpus\": 9}", THOLE_FOR_EVER, -1, text, sizeof text) == THOLE_USAGE);
  CHECK(strstr(text, "8") != NULL);
  CHECK(claim_error(machine, "{\"model\": \"H100\"}", THOLE_FOR_EVER, -1, text, sizeof text) == THOLE_USAGE);
  CHECK(claim_error(machine, "{\"gpu\": 1}", THOLE_FOR_EVER, -1, text, sizeof text) == THOLE_USAGE);
  CHECK(strstr(text, "gpus") != NULL);
  CHECK(claim_error(machine, "{\"ids\": \"names\"}", THOLE_FOR_EVER, -1, text, sizeof text) == THOLE_USAGE);
  CHECK(claim_error(machine, "{\"not_started\": 1}", THOLE_FOR_EVER, -1, text, sizeof text) == THOLE_USAGE);
  CHECK(claim_error(machine, "no json", THOLE_FOR_EVER, -1, text, sizeof text) == THOLE_USAGE);
  thole_close(machine);
}

static void a_wait_ends_by_time_or_at_once(void) {
  thole_machine *machine = open_simulated();
  thole_claim *all = must_claim(machine, "{\"gpus\": 8}", 0);
  CHECK(claim_error(machine, NULL, 0, -1, NULL, 0) == THOLE_BUSY);
  const int64_t begin = now_ms();
  CHECK(claim_error(machine, NULL, 150, -1, NULL, 0) == THOLE_TIMED_OUT);
  CHECK(now_ms() - begin >= 150 && now_ms() - begin < 5000);
  thole_claim_release(all);
  thole_close(machine);
}

static void a_wait_is_as_configured_where_it_is_asked_so(void) {
  setenv("THOLE_WAIT", "0", 1);
  thole_machine *machine = open_simulated();
  unsetenv("THOLE_WAIT");
  thole_claim *all = must_claim(machine, "{\"gpus\": 8}", THOLE_AS_CONFIGURED);
  CHECK(claim_error(machine, NULL, THOLE_AS_CONFIGURED, -1, NULL, 0) == THOLE_BUSY);
  CHECK(claim_error(machine, NULL, 1, -1, NULL, 0) == THOLE_TIMED_OUT);
  thole_claim_release(all);
  thole_close(machine);
}

static void the_cancel_descriptor_ends_a_wait(void) {
  thole_machine *machine = open_simulated();
  thole_claim *all = must_claim(machine, "{\"gpus\": 8}", 0);
  int ends[2];
  char byte = 0;
  CHECK(pipe(ends) == 0);
  CHECK(write(ends[1], "x", 1) == 1);
  CHECK(claim_error(machine, NULL, THOLE_FOR_EVER, ends[0], NULL, 0) == THOLE_CANCELLED);
  CHECK(read(ends[0], &byte, 1) == 1 && byte == 'x'); /* it was not read */
  close(ends[1]);
  CHECK(claim_error(machine, NULL, THOLE_FOR_EVER, ends[0], NULL, 0) == THOLE_CANCELLED); /* hung up */
  close(ends[0]);
  char *json = thole_snapshot(machine, NULL);
  CHECK(json && strstr(json, "\"queue\": []")); /* no trace */
  thole_free(json);
  thole_claim_release(all);
  thole_close(machine);
}

/* Who keeps the claims locked is told on the descriptor, which here is the one that ends the wait, too. */
static void who_keeps_the_claims_locked_is_told(void) {
  thole_machine *machine = open_simulated();
  thole_claim_release(must_claim(machine, NULL, 0)); /* there is a directory now */
  char path[4096], request[64], told[4096] = "", pid[32];
  snprintf(path, sizeof path, "%s/state/alloc", directory);
  const int alloc = open(path, O_RDWR | O_CLOEXEC);
  CHECK(alloc >= 0 && flock(alloc, LOCK_EX) == 0);
  CHECK(claim_error(machine, "{\"try_ms\": 50}", 0, -1, NULL, 0) == THOLE_CANCELLED);
  int ends[2];
  CHECK(pipe(ends) == 0);
  snprintf(request, sizeof request, "{\"tell_fd\": %d}", ends[1]);
  CHECK(claim_error(machine, request, 0, ends[0], NULL, 0) == THOLE_CANCELLED);
  CHECK(read(ends[0], told, sizeof told - 1) > 0 && strchr(told, '\n') == told + strlen(told) - 1);
  snprintf(pid, sizeof pid, "locked: pid %d", (int)getpid());
  CHECK(strncmp(told, "{\"caution\":", 11) == 0 && strstr(told, pid) && strstr(told, "/alloc"));
  char filling[4096] = ""; /* a full pipe that blocks is not waited for */
  CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0);
  while (write(ends[1], filling, sizeof filling) > 0) continue;
  CHECK(fcntl(ends[1], F_SETFL, 0) == 0);
  snprintf(request, sizeof request, "{\"tell_fd\": %d, \"try_ms\": 2500}", ends[1]);
  CHECK(claim_error(machine, request, 0, -1, NULL, 0) == THOLE_CANCELLED);
  snprintf(request, sizeof request, "{\"tell_fd\": %d}", ends[1]);
  close(alloc);
  close(ends[0]); /* who does not listen costs nothing */
  thole_claim *all = must_claim(machine, "{\"gpus\": 8}", 0);
  CHECK(claim_error(machine, request, 300, -1, NULL, 0) == THOLE_TIMED_OUT);
  thole_claim_release(all);
  close(ends[1]);
  thole_close(machine);
}

struct waiter {
  thole_machine *machine;
  thole_claim *claim;
  thole_error *error;
};

static void *wait_for_ever(void *argument) {
  struct waiter *waiter = argument;
  waiter->claim = thole_claim_gpus(waiter->machine, "{\"gpus\": 8}", THOLE_FOR_EVER, -1, &waiter->error);
  return NULL;
}

static void a_waiting_thread_gets_what_another_releases(void) {
  thole_machine *machine = open_simulated();
  thole_claim *one = must_claim(machine, NULL, 0);
  struct waiter waiter = {machine, NULL, NULL};
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, wait_for_ever, &waiter) == 0);
  for (int waits = 0; !waits;) { /* until it stands in the line */
    char *json = thole_snapshot(machine, NULL);
    waits = json && !strstr(json, "\"queue\": []");
    thole_free(json);
  }
  thole_claim_release(one);
  pthread_join(thread, NULL);
  CHECK(waiter.claim != NULL);
  thole_claim_release(waiter.claim);
  thole_error_free(waiter.error);
  thole_close(machine);
}

enum { threads = 12, rounds = 40 };
static atomic_int owners[8], collisions, completed;

static void *claim_again_and_again(void *argument) {
  thole_machine *machine = argument;
  for (int round = 0; round < rounds; ++round) {
    thole_claim *claim = thole_claim_gpus(machine, round % 3 ? "{\"gpus\": 1}" : "{\"gpus\": 3}", THOLE_FOR_EVER, -1, NULL);
    if (!claim) continue;
    int indices[3], n = 0;
    char list[64];
    snprintf(list, sizeof list, "%s", value_of(claim, "CUDA_VISIBLE_DEVICES"));
    char *rest = NULL;
    for (char *word = strtok_r(list, ",", &rest); word && n < 3; word = strtok_r(NULL, ",", &rest)) indices[n++] = atoi(word);
    for (int i = 0; i < n; ++i)
      if (atomic_fetch_add(&owners[indices[i]], 1) != 0) atomic_fetch_add(&collisions, 1);
    for (int i = 0; i < n; ++i) atomic_fetch_sub(&owners[indices[i]], 1);
    thole_claim_release(claim);
    atomic_fetch_add(&completed, 1);
  }
  return NULL;
}

static void threads_on_one_machine_never_own_a_gpu_twice(void) {
  thole_machine *machine = open_simulated();
  pthread_t all[threads];
  for (int i = 0; i < threads; ++i) pthread_create(&all[i], NULL, claim_again_and_again, machine);
  for (int i = 0; i < threads; ++i) pthread_join(all[i], NULL);
  CHECK(atomic_load(&collisions) == 0);
  CHECK(atomic_load(&completed) == threads * rounds);
  thole_close(machine);
}

static void a_killed_process_leaves_its_claim_free(void) {
  int ready[2];
  CHECK(pipe(ready) == 0);
  const pid_t child = fork();
  if (child == 0) {
    thole_machine *machine = thole_open(options, NULL);
    thole_claim *claim = machine ? thole_claim_gpus(machine, "{\"gpus\": 8}", 0, -1, NULL) : NULL;
    if (!claim || write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  char byte = 0;
  CHECK(read(ready[0], &byte, 1) == 1);
  thole_machine *machine = open_simulated();
  CHECK(claim_error(machine, NULL, 0, -1, NULL, 0) == THOLE_BUSY);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  thole_claim_release(must_claim(machine, "{\"gpus\": 8}", 5000));
  thole_close(machine);
  close(ready[0]);
  close(ready[1]);
}

static void nothing_is_left_behind(void) {
  const size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    thole_machine *machine = open_simulated();
    thole_claim_release(must_claim(machine, "{\"gpus\": 3}", 0));
    thole_free(thole_snapshot(machine, NULL));
    claim_error(machine, "{\"gpus\": 9}", 0, -1, NULL, 0);
    thole_close(machine);
  }
  CHECK(open_descriptors() == before);
  CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD); /* no child either */
}

/* Starts `script` with a shell; its stdout is the answer (of at most 255 bytes). */
static int status_of(const char *script, const char *binding, char *said) {
  thole_error *error = NULL;
  const char *argv[] = {"sh", "-c", script, NULL};
  const char *environment[] = {"PATH=/bin:/usr/bin", "WORD=given", NULL};
  int out[2], end = -1;
  if (pipe(out) != 0) exit(1);
  const int descriptors[] = {out[1], 7, -1};
  const int pid = thole_start(argv, environment, "/", binding, descriptors, -1, &end, &error);
  close(out[1]);
  CHECK(pid > 0 && end >= 0 && error == NULL);
  ssize_t n, size = 0;
  while ((n = read(out[0], said + size, 255 - (size_t)size)) > 0) size += n;
  said[size] = 0;
  int status = -1;
  CHECK(waitpid(pid, &status, 0) == pid);
  close(out[0]);
  close(end);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void a_program_starts_where_as_and_with_what_it_is_told(void) {
  char said[256];
  CHECK(status_of("echo $PWD $WORD $HOME >&7; exit 3", NULL, said) == 3);
  CHECK(strcmp(said, "/ given\n") == 0);
  CHECK(status_of("grep Cpus_allowed_list /proc/self/status >&7", "{\"cpus\": \"0\", \"set\": {}}", said) == 0);
  CHECK(strstr(said, "\t0\n") != NULL);
}

static void a_program_that_cannot_start_is_an_error(void) {
  thole_error *error = NULL;
  const char *argv[] = {"no-such-program-at-all", NULL};
  int end = -1;
  CHECK(thole_start(argv, NULL, NULL, NULL, NULL, -1, &end, &error) == -1);
  CHECK((int)thole_error_code(error) == 127 && end == -1);
  thole_error_free(error);
  error = NULL;
  argv[0] = "true";
  CHECK(thole_start(argv, NULL, NULL, "{\"cpus\": \"x\"}", NULL, -1, &end, &error) == -1);
  CHECK(thole_error_code(error) == THOLE_USAGE);
  thole_error_free(error);
}

/* Does the last of those who write to it go, within ten seconds? */
static int is_let_go(int out) {
  char byte;
  struct pollfd watched = {out, POLLIN, 0};
  return poll(&watched, 1, 10000) == 1 && read(out, &byte, 1) == 0;
}

static void a_program_and_its_children_end_with_the_life_of_who_started_it(void) {
  /* Many times: what is forked while the end comes must not outlive it, and only now and then does a fork meet it. */
  for (int i = 0; i < 1000; ++i) {
    int life[2], out[2], end = -1;
    if (pipe2(life, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) exit(1);
    const char *argv[] = {"sh", "-c", "sleep 1000 & echo; sleep 1000", NULL};
    const int descriptors[] = {out[1], 1, -1};
    const int pid = thole_start(argv, NULL, NULL, NULL, descriptors, life[0], &end, NULL);
    CHECK(pid > 0);
    close(out[1]);
    char byte;
    CHECK(read(out[0], &byte, 1) == 1);
    close(life[1]);
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    /* or it has just seen its child die of it */
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGKILL));
    const int gone = is_let_go(out[0]);
    CHECK(gone);
    if (!gone) kill(-pid, SIGKILL);
    if (i == 0) CHECK(thole_start(argv, NULL, NULL, NULL, NULL, life[0], &end, NULL) == -1); /* too late for another */
    close(life[0]);
    close(out[0]);
    close(end);
  }
}

static void a_claim_is_shared_out_among_processes(void) {
  thole_machine *machine = open_simulated();
  thole_claim *claim = must_claim(machine, "{\"gpus\": 2}", 0);
  const char *const *uuids = thole_claim_uuids(claim);
  char request[256];
  snprintf(request, sizeof request, "{\"ranks\": [[\"%s\"], [\"%s\", \"%s\"], []], \"bind\": {\"mode\": \"node\"}}", uuids[1],
           uuids[0], uuids[1]);
  char *told = thole_claim_ranks(machine, claim, request, NULL);
  CHECK(told != NULL);
  const char *first = told ? strstr(told, "CUDA_VISIBLE_DEVICES") : NULL,
             *second = first ? strstr(first + 1, "CUDA_VISIBLE_DEVICES") : NULL;
  CHECK(second && strstr(second + 1, "\"CUDA_VISIBLE_DEVICES\": \"\"") != NULL); /* the third sees none */
  CHECK(told && strstr(told, "\"cpus\"") && strstr(told, "\"by_names\"") && strstr(told, uuids[1]));
  thole_free(told);

  snprintf(request, sizeof request, "{\"ranks\": [[\"%s\"]], \"anew\": true}", uuids[1]);
  told = thole_claim_ranks(machine, claim, request, NULL);
  CHECK(told && strstr(told, "CUDA_VISIBLE_DEVICES") && strstr(told, "\"by_names\"") && !strstr(told, "\"cpus\""));
  thole_free(told);

  static const char *const wrong[] = {"{\"ranks\": [[\"GPU-none\"]]}", "{\"ranks\": [[]], \"bind\": {\"mood\": \"x\"}}", "[]",
                                      "{\"ranks\": [], \"anew\": 1}"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    thole_error *error = NULL;
    CHECK(thole_claim_ranks(machine, claim, wrong[i], &error) == NULL);
    CHECK(thole_error_code(error) == THOLE_USAGE);
    thole_error_free(error);
  }
  thole_claim_release(claim);
  thole_close(machine);
}

static void who_is_inside_of_a_claim_learns_what_its_lists_show(void) {
  thole_machine *machine = open_simulated();
  thole_claim *claim = must_claim(machine, "{\"gpus\": 2}", 0);
  char *around = thole_claim_around(machine, NULL);
  CHECK(around && strcmp(around, "null") == 0);
  thole_free(around);
  const pid_t child = fork();
  if (child == 0) {
    const int given = thole_claim_set_environment(claim) == 0;
    const char *const *uuids = thole_claim_uuids(claim);
    char *shown = thole_claim_around(open_simulated(), NULL);
    const int told = shown && strstr(shown, "\"by_names\": {") && strstr(shown, uuids[0]) && strstr(shown, uuids[1]);
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    char *others = thole_claim_around(open_simulated(), NULL);
    _exit(given && told && others && strcmp(others, "null") == 0 ? 0 : 2);
  }
  int status = -1;
  CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
  thole_claim_release(claim);
  thole_close(machine);
}

int main(void) {
  if (!mkdtemp(directory)) return 1;
  snprintf(options, sizeof options, "{\"machine\": \"dgx-a100\", \"state_dir\": \"%s/state\"}", directory);
  static const struct {
    const char *name;
    void (*run)(void);
  } tests[] = {
#define TEST(name) {#name, name}
      TEST(null_handles_are_taken_where_something_ends),
      TEST(a_loaded_library_is_known_by_its_name),
      TEST(open_says_what_is_wrong),
      TEST(snapshot_is_the_json_of_status),
      TEST(plan_claims_nothing),
      TEST(a_failure_has_a_word_for_its_reason),
      TEST(a_plan_answers_a_line),
      TEST(this_process_is_bound_as_a_rank),
      TEST(a_claim_names_its_gpus_and_its_environment),
      TEST(the_environment_is_given_to_this_process),
      TEST(a_request_that_cannot_be_met_is_refused_at_once),
      TEST(a_wait_ends_by_time_or_at_once),
      TEST(a_wait_is_as_configured_where_it_is_asked_so),
      TEST(the_cancel_descriptor_ends_a_wait),
      TEST(who_keeps_the_claims_locked_is_told),
      TEST(a_waiting_thread_gets_what_another_releases),
      TEST(threads_on_one_machine_never_own_a_gpu_twice),
      TEST(a_killed_process_leaves_its_claim_free),
      TEST(a_program_starts_where_as_and_with_what_it_is_told),
      TEST(a_program_that_cannot_start_is_an_error),
      TEST(a_program_and_its_children_end_with_the_life_of_who_started_it),
      TEST(who_is_inside_of_a_claim_learns_what_its_lists_show),
      TEST(a_claim_is_shared_out_among_processes),
      TEST(nothing_is_left_behind),
  };
  for (size_t i = 0; i < sizeof tests / sizeof *tests; ++i) {
    const int before = failures;
    current = tests[i].name;
    tests[i].run();
    printf("%-6s %s\n", failures == before ? "ok" : "FAILED", current);
    fflush(stdout);
  }
  char command[256];
  snprintf(command, sizeof command, "rm -rf '%s'", directory);
  if (system(command) != 0) return 1;
  return failures != 0;
}
