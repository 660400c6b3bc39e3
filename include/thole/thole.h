/* thole.h: see, plan and claim the GPUs of this machine from C. Link with -lthole (pkg-config thole).
 *
 *     thole_error *error = NULL;
 *     thole_machine *machine = thole_open(NULL, &error);
 *     thole_claim *claim = machine ? thole_claim_gpus(machine, "{\"gpus\": 2}", THOLE_FOR_EVER, -1, &error) : NULL;
 *     if (!claim) { fprintf(stderr, "%s\n", thole_error_text(error)); return thole_error_code(error); }
 *     thole_claim_set_environment(claim);
 *     ... the work; only now start CUDA, HIP or Level Zero ...
 *     thole_claim_release(claim);
 *
 * The rules, which hold for every function below unless it says otherwise:
 *
 *  1. Errors. What can fail takes a `thole_error **error` last: NULL (not wanted), or the address of a pointer. On failure it
 *     returns NULL and stores a new error there, which the caller frees with thole_error_free. On success it stores nothing.
 *  2. Ownership. A handle returned belongs to the caller, who ends it with the function named at its type. `char *` belongs to
 *     the caller, who frees it with thole_free. `const char *` belongs to the handle it came from and lives as long. Functions
 *     that end or free take NULL and do nothing. NULL for a handle or a text that is asked for is THOLE_USAGE, where
 *     there is no error to tell an empty answer. Arguments are only borrowed for the call.
 *  3. Text is UTF-8 and ends with NUL. Rich values are JSON text; their fields are described in docs/json.md. Fields may be
 *     added to answers: ignore what you do not know. In what you pass, an unknown field is an error (a misspelt wish is not
 *     overlooked). Units are in the field names (memory_mib); unknown is null, never 0.
 *  4. Times passed as arguments are milliseconds; THOLE_FOR_EVER (any other negative number) means no limit,
 *     THOLE_AS_CONFIGURED what request.wait of the configuration or THOLE_WAIT says, and no limit where they say nothing.
 *  5. Threads. Functions on one `thole_machine` may run in any number of threads at once, thole_close excepted. A claim may be
 *     read by any number of threads; thole_claim_release must be the last use of it. An error belongs to one thread at a time.
 *  6. Processes. A claim is a lock held by this process. It ends with thole_claim_release or with the process, however that
 *     ends. Its descriptors are close-on-exec; a child forked without exec keeps a copy and with it the claim, until it ends.
 *     A handle must not be used in a forked child.
 *  7. Manners. The library prints nothing, installs no signal handler, starts no thread, and reads the environment and the
 *     configuration files only in thole_open. Only thole_claim_set_environment changes the environment. A pipe that nobody
 *     reads or a full file (RLIMIT_FSIZE) sends you no SIGPIPE or SIGXFSZ. It may start one short-lived child that talks to
 *     the vendor's driver, which is reaped by its pid: a SIGCHLD handler sees it come and go.
 *  8. Compatibility. No structure is public and no function changes its meaning or goes away within libthole.so.0.
 */
#ifndef THOLE_H
#define THOLE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define THOLE_EXPORT __attribute__((visibility("default")))
#else
#define THOLE_EXPORT
#endif

typedef struct thole_machine thole_machine; /* a machine, opened; ended by thole_close */
typedef struct thole_claim thole_claim;     /* GPUs that are yours; ended by thole_claim_release */
typedef struct thole_error thole_error;     /* what failed, on what, and what mends it; ended by thole_error_free */

#define THOLE_FOR_EVER INT64_C(-1)
#define THOLE_AS_CONFIGURED INT64_C(-2)

/* Classes of failure. The numbers are the exit statuses of the program `thole`. */
typedef enum thole_code {
  THOLE_OK = 0,
  THOLE_USAGE = 64,       /* the request is malformed, or this machine can never meet it */
  THOLE_UNAVAILABLE = 69, /* the driver, a GPU asked for, or the state directory cannot be used */
  THOLE_TOO_LATE = 70,    /* with "not_started": this process is on a GPU already (no exit status of the program) */
  THOLE_BUSY = 75,        /* none free, and the time to wait was 0 */
  THOLE_TIMED_OUT = 124,  /* the wait ran out */
  THOLE_INTERNAL = 125,   /* thole itself failed (out of memory or descriptors, a bug) */
  THOLE_CANCELLED = 130   /* the cancel descriptor ended the wait */
} thole_code;

/* ---- Errors ---- */

/* The class of a failure; THOLE_OK for NULL. */
THOLE_EXPORT thole_code thole_error_code(const thole_error *error);

/* One line for people: what failed, on which object, why, and what to try. "no error" for NULL. */
THOLE_EXPORT const char *thole_error_text(const thole_error *error);

/* The parts of it, "" where there is none: the sentence; the file, GPU or word it was about; the fix. "" for NULL. */
THOLE_EXPORT const char *thole_error_message(const thole_error *error);
THOLE_EXPORT const char *thole_error_object(const thole_error *error);
THOLE_EXPORT const char *thole_error_hint(const thole_error *error);

/* The class as a word, in two cases a finer one: "never-possible" (of THOLE_USAGE: this machine can never meet the request) and
 * "driver" (of THOLE_UNAVAILABLE: the driver does not answer, or a GPU asked for cannot be used); else "usage", "unavailable",
 * "busy", "timed-out", "too-late", "internal", "interrupted", "not-found", "not-executable". "" for NULL. */
THOLE_EXPORT const char *thole_error_reason(const thole_error *error);

/* errno of the system call that failed; 0 where none did, and for NULL. */
THOLE_EXPORT int thole_error_errno(const thole_error *error);

THOLE_EXPORT void thole_error_free(thole_error *error);

/* Frees a `char *` that a function of this header returned. */
THOLE_EXPORT void thole_free(char *text);

/* ---- The machine ---- */

/* The version of the library, "0.1.0". Static; never freed. */
THOLE_EXPORT const char *thole_version(void);

/* 1 if a shared library of this name ("libcuda.so", whatever version follows) is loaded into this process, else 0. */
THOLE_EXPORT int thole_is_loaded(const char *library);

/* 0 if nothing in this process can have started CUDA, HIP or Level Zero: libcuda is not loaded, and /dev has none of the
 * devices that they open. Else 1, and a closer look tells. `root` comes before /dev, "" on this machine. */
THOLE_EXPORT int thole_may_have_started(const char *root);

/* Opens this machine. `options` is NULL or a JSON object of
 *   "machine":   a simulated machine instead: its name ("dgx-a100", "8xA100") or the path of a machine file;
 *   "state_dir": the directory of the claims instead of the machine's own.
 * Both default to what the configuration and THOLE_MACHINE, THOLE_STATE_DIR say.
 * Reads configuration, no driver. Errors: THOLE_USAGE (options, an unknown machine, a mistake in a machine file or in the
 * configuration), THOLE_UNAVAILABLE. */
THOLE_EXPORT thole_machine *thole_open(const char *options, thole_error **error);

/* Closes the machine. Claims made through it must have been released before. */
THOLE_EXPORT void thole_close(thole_machine *machine);

/* The machine, its present use, who has claimed what and who waits: the JSON of `thole status --json`. Takes as long as the
 * driver takes to answer, at most about 4 s (a driver that does not answer is reported in the text, not waited for, and so is a
 * state directory that cannot be read). A machine without GPUs is no error. Errors: THOLE_USAGE (a machine file that was edited
 * into something unreadable). */
THOLE_EXPORT char *thole_snapshot(thole_machine *machine, thole_error **error);

/* What a claim would get now, without claiming: a JSON object with "outcome" ("take" or "wait"), for "take" the "gpus" (UUIDs)
 * and "explain", why these; for "wait" "why" (sentences, the place in line first), the "position" in line that a claim would
 * have and the "promise": the time of its start, or null. `request`: as for thole_claim_gpus. A request that can never be met
 * is an error, as there. */
THOLE_EXPORT char *thole_plan(thole_machine *machine, const char *request, thole_error **error);

/* Which GPUs a job of several processes would get and what each would be bound to, without claiming: one line of `thole plan
 * --batch`, request and answer (docs/plan.md). "machine" absent or null is this one. What is wrong with the request is in the
 * answer, as "error". */
THOLE_EXPORT char *thole_plan_answer(thole_machine *machine, const char *request, thole_error **error);

/* Binds this process, all its threads, to the CPUs near its GPUs. `request` is NULL or a JSON object of
 *   "local_rank", "ranks"         which of how many processes of this job on this machine; what is absent or null the variables
 *                                 of the launcher say (docs/binding.md); where neither does, it is the only one
 *   "gpus_per_rank": 1            the GPUs of each, counted off from those that the environment allots
 *   "on": []                      counted off from these instead: index, UUID or PCI address
 *   "bind": {}                    "mode", "smt", "nic", "threads", "reserve", "lend", "balanced", "strict": docs/binding.md
 * Returns thole/bound/1 (docs/json.md). The variables it holds for this rank ("set") are the caller's to set. Never to CPUs
 * that the process may not use now: a second call can only narrow. Errors: THOLE_USAGE; THOLE_UNAVAILABLE: not bound, and under
 * "strict" not as asked. */
THOLE_EXPORT char *thole_bind(thole_machine *machine, const char *request, thole_error **error);

/* ---- Claims ---- */

/* Claims GPUs: all that were asked for or none. Where they are not free it waits its turn in the machine's one queue, first
 * come, first served, with the programs and people that wait there. `request` is NULL (one GPU) or a JSON object of
 *   "gpus": 1                     how many; 0 claims none and hides all
 *   "on": [], "not": []           only these, none of these: index, UUID or a unique beginning of one, PCI address
 *   "model": "A100"               part of the model's name
 *   "memory_mib": 20480           free memory needed; with "share" the memory this program will use (then required)
 *   "share": false                beside other sharers; "share_with": "user" or "any" says whose
 *   "beside": "none"              unclaimed processes tolerated on it: "none", "mine", "any", within
 *   "max_load_percent": 50, "max_memory_percent": 50
 *   "pick": "pack"                which of the free ones: "pack", "first", "last", "random", "load", "memory"
 *   "shape": "collective"         how they talk to each other: "collective", "pairwise", "independent"
 *   "order": []                   take these first, in this order; the program numbers them so, too
 *   "trust_claims": false         do not look whether somebody uses them without a claim
 *   "ids": "auto"                 how the environment names them: "auto", "uuid", "index"
 *   "own": []                     claims of this thread that nobody ends while it waits: an error (69) where only their end
 *                                 could give what is asked for
 *   "try_ms": 0                   how long it may take once the GPUs have been looked at, where somebody keeps the claims
 *                                 locked (for that up to 5 s) or the last programs on them are ending; then THOLE_CANCELLED.
 *                                 For a try in a thread that has signals to hear; 0: as long as it takes
 *   "tell_fd"                     a descriptor (best a pipe that does not block; what finds it full is left out) to which lines
 *                                 of JSON are written as the wait goes on: {"caution": "…"}, what keeps it from the line,
 *                                 within 2 s who keeps the claims locked; and once, where it waits in line, {"why",
 *                                 "position", "promise"} as thole_plan tells
 *   "not_started": false          refuse where the driver shows this process on a GPU: it would not see what it claims
 *   "command": "training"         what others see the GPU is used for; the program's own command line if absent
 * wait_ms: how long to wait at most; 0 does not wait. cancel_fd: a descriptor that ends the wait when it becomes readable or is
 * hung up at the other end (a pipe, an eventfd, a signalfd, a pidfd), or -1; it is not read. A wait that ends early leaves the
 * queue without a trace. Within a claim that this process inherited (THOLE_CLAIM), the GPUs are taken from that one.
 * Errors: THOLE_USAGE, THOLE_UNAVAILABLE, THOLE_TOO_LATE, THOLE_BUSY, THOLE_TIMED_OUT, THOLE_CANCELLED. */
THOLE_EXPORT thole_claim *thole_claim_gpus(thole_machine *machine, const char *request, int64_t wait_ms, int cancel_fd,
                                           thole_error **error);

/* The claim as JSON: "id", "gpus" (each "key", its name in thole_claim_uuids, "uuid", "index", "model", …), "environment" with
 * "set" and "unset", "cautions": sentences for whoever runs the program, as that the locks of a claim around could not be
 * copied. */
THOLE_EXPORT const char *thole_claim_json(const thole_claim *claim);

/* The claim's name, as `thole status` shows it. */
THOLE_EXPORT const char *thole_claim_id(const thole_claim *claim);

/* The UUIDs of the GPUs in machine order, and a NULL at the end. A GPU without one is "pci-", its address and its part:
 * "pci-0000:18:00.0.0"; what takes UUIDs takes that, too. */
THOLE_EXPORT const char *const *thole_claim_uuids(const thole_claim *claim);

/* What a program must have in its environment to see these GPUs and no others: "NAME=value" to set, "NAME" alone to remove, and
 * a NULL at the end. For starting programs; for this process there is thole_claim_set_environment. */
THOLE_EXPORT const char *const *thole_claim_environment(const thole_claim *claim);

/* Gives that environment to this process and to the children it starts from now on. It has effect here only before the vendor's
 * runtime (CUDA, HIP, Level Zero) is started, and is not safe while other threads use the environment. 0, or -1 without
 * memory. */
THOLE_EXPORT int thole_claim_set_environment(const thole_claim *claim);

/* Ends the claim and frees the handle: at once, unless a child that was forked and never called exec lives, which has a
 * copy of the lock; then when that one has ended. */
THOLE_EXPORT void thole_claim_release(thole_claim *claim);

/* ---- Processes ---- */

/* What each process of a group gets that shares out this claim. `request`:
 *   "ranks": [["GPU-…"], …]       the GPUs of each process, as thole_claim_uuids names them, in the order in which it is to
 *                                 number them; several may have the same; an empty list hides all
 *   "bind": {}                    "mode", "mem", "smt", "nic", "threads", "reserve", "lend", "balanced", "strict" as in the
 *                                 configuration's table "bind"; without a mode one process gets what `thole run` gives, several
 *                                 the shares of ranks (docs/binding.md)
 *   "anew": false                 for processes that begin later than the claim: the driver is asked by a fresh probe, and only
 *                                 what shows them their GPUs is told, no binding. With it `claim` may be NULL: the one that
 *                                 this process runs inside of (THOLE_CLAIM), of which nothing is told but the lists and
 *                                 THOLE_GPUS; without one "ranks" is null in the answer
 * Returns {"ranks": [{"set", "unset", "by_names", "cpus", "memory", "memory_nodes", "lacks"}, …]}: variables (the claim's,
 * narrowed to these GPUs, so that claims made in the process come out of them, and those of the binding), a list of CPUs or
 * null, a memory policy or null with its nodes, and in sentences what it does not get of what was wanted. Numbers in the
 * variables are another GPU's once one of these has left the driver's list (then "anew" is THOLE_UNAVAILABLE, "driver");
 * "by_names" is the "set" and "unset" that are nobody else's even then, or null where one of these GPUs goes by number only.
 * Where root has taken a GPU of the claim back, "anew" gives "ranks" null and "taken_back", a sentence: nothing is to begin.
 * With no ranks that is all it looks at: whether any of the claim's was taken.
 * Errors: THOLE_USAGE, THOLE_UNAVAILABLE. */
THOLE_EXPORT char *thole_claim_ranks(thole_machine *machine, const thole_claim *claim, const char *request,
                                     thole_error **error);

/* What this process's lists (CUDA_VISIBLE_DEVICES and the like) show of the claim that it runs inside of, as the variables of
 * that tell; nobody is asked. Returns {"gpus": ["GPU-…"], "by_names": {"NAME": "…"}}: keys, as "ranks" above takes them, and
 * lists that show the same by names that are never another GPU's, or null where one has no such name. "null" where it runs
 * inside of none, or somebody has set a list since that shows none, or others. */
THOLE_EXPORT char *thole_claim_around(thole_machine *machine, thole_error **error);

/* Starts a program, vfork style, in a process group of its own, and returns its pid; -1 on failure. Whoever calls waits for it:
 * `*end` becomes a pidfd, the caller's to close.
 *   argv, environment   end with NULL; environment NULL: this process's. The program is looked up in that environment's PATH
 *   directory           where it starts; NULL: here
 *   binding             NULL, or JSON with "cpus", "memory", "memory_nodes", "strict", as thole_claim_ranks tells; in force
 *                       before the program starts
 *   descriptors         pairs: one of ours and the number at which the program has it, then -1; NULL: none. All others that are
 *                       not close-on-exec are inherited as ever
 *   life                the read end of a pipe, or -1: when the last write end of that pipe is closed, as it is when this
 *                       process ends, however it ends, the kernel kills the program and its process group
 * Errors: THOLE_USAGE; THOLE_UNAVAILABLE ("strict", or a directory that cannot be entered); 126 and 127 as a shell says them
 * where the program cannot be run or is not there; THOLE_INTERNAL. */
THOLE_EXPORT int thole_start(const char *const *argv, const char *const *environment, const char *directory,
                             const char *binding, const int *descriptors, int life, int *end, thole_error **error);

#ifdef __cplusplus
}
#endif
#endif
