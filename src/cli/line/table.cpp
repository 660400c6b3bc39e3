#include "cli/line/table.hpp"

#include <array>

#include "base/error.hpp"
#include "cli/line/binding_words.hpp"
#include "cli/line/table_queue.hpp"
#include "cli/line/words.hpp"
#include "model/queue_view.hpp"

namespace thole::cli {

namespace {

using model::Beside;
using model::Pick;
using model::ShareWith;

// The rows follow one shape, so that they can be read as a table: letter, name, value, help, what it sets, what completes it.
// clang-format off
using I = Invocation;
using W = Word;

constexpr Option global_rows[] = {
  {0, "machine", "FILE|NAME", "use a simulated machine: a machine file, a shipped name (dgx-a100), or a shorthand (8xA100)",
   [](I& i, const W& w) { i.global.machine = text_of(w); }, Offer::machines},
  {0, "state-dir", "DIR", "keep claims in DIR (created when missing)",
   [](I& i, const W& w) { i.global.state_dir = text_of(w); }, Offer::directories},
  {0, "queue-dir", "DIR", "use the queue in DIR (created when missing)",
   [](I& i, const W& w) { i.queue.directory = text_of(w); }, Offer::directories},
  {0, "json", "", "print one JSON document with a versioned schema instead of text",
   [](I& i, const W&) { i.global.json = true; }},
  {'q', "quiet", "", "say nothing on stderr but errors and warnings", [](I& i, const W&) { i.global.quiet = true; }},
  {'v', "verbose", "", "say more on stderr", [](I& i, const W&) { i.global.verbose = true; }},
  {0, "no-color", "", "no colours and no bold (also: NO_COLOR in the environment)",
   [](I& i, const W&) { i.global.no_color = true; }},
  {'h', "help", "", "show help and exit", [](I& i, const W&) { i.global.help = true; }},
  {0, "version", "", "show the version and exit", [](I& i, const W&) { i.global.version = true; }},
};

constexpr Option request_rows[] = {
  {'g', "gpus", "N", "how many GPUs (default 1; 0 claims none and hides all)",
   [](I& i, const W& w) { i.request.gpus = count_of(w); }},
  {0, "on", "GPU,...", "only these: index, 0:1 for an instance, UUID or a prefix of it, PCI address",
   [](I& i, const W& w) { i.request.on = gpus_of(w); }, Offer::gpus},
  {0, "not", "GPU,...", "none of these", [](I& i, const W& w) { i.request.not_on = gpus_of(w); }, Offer::gpus},
  {0, "model", "TEXT", "only GPUs whose model name contains TEXT, such as A100",
   [](I& i, const W& w) { i.request.model = text_of(w); }, Offer::models},
  {0, "memory", "SIZE", "free memory needed on each GPU, such as 20G; with --share: the budget (required)",
   [](I& i, const W& w) { i.request.memory_mib = size_mib_of(w); }},
  {0, "share", "", "share a GPU with others that said --share, within memory budgets",
   [](I& i, const W&) { i.request.share = true; }},
  {0, "share-with", "any", "share with other users too (GPUs leak between users)",
   [](I& i, const W& w) {
     i.request.share_with = choice_of(w, "any|same-user") == "any" ? ShareWith::any : ShareWith::same_user; },
   Offer::choices, "any|same-user"},
  {0, "beside", "WHOSE", "take a GPU although unclaimed processes use it: none, mine or any (default none; mine with --share)",
   [](I& i, const W& w) { i.request.beside = *model::parse_beside(choice_of(w, "none|mine|any")); },
   Offer::choices, "none|mine|any"},
  {0, "max-load", "PERCENT", "with --beside: at most this utilisation, such as 20%; 0.2 means the same (default 50%)",
   [](I& i, const W& w) { i.request.max_load_percent = percent_of(w); }},
  {0, "max-memory", "PERCENT", "with --beside: at most this much of the memory in use (default 50%)",
   [](I& i, const W& w) { i.request.max_memory_percent = percent_of(w); }},
  {0, "pick", "ORDER", "which of the free GPUs: pack (default), first, last, random, load or memory",
   [](I& i, const W& w) { i.request.pick = *model::parse_pick(choice_of(w, "pack|first|last|random|load|memory")); },
   Offer::choices, "pack|first|last|random|load|memory"},
  {0, "shape", "SHAPE", "how they talk to each other: collective (default), pairwise or independent",
   [](I& i, const W& w) { i.request.shape = *model::parse_shape(choice_of(w, "collective|pairwise|independent")); },
   Offer::choices, "collective|pairwise|independent"},
  {0, "order", "GPU,...", "take these first, in this order, before any other; the job numbers them so, too",
   [](I& i, const W& w) { i.request.order = gpus_of(w); }, Offer::gpus},
  {0, "trust-claims", "", "only claims count; do not ask the driver who uses the GPUs",
   [](I& i, const W&) { i.request.trust_claims = true; }},
  {'t', "time", "TIME", "how long it will take, such as 8h: a limit for `run` and `submit`, the end of a `claim`; lets others "
   "plan",
   [](I& i, const W& w) { i.request.time = run_time_of(w); }},
  {0, "wait", "TIME", "wait at most this long, such as 30m (default: as long as it takes)",
   [](I& i, const W& w) { i.request.wait = duration_of(w); }},
  {0, "no-wait", "", "do not wait: exit 75 when not enough are free",
   [](I& i, const W&) { i.request.wait = Seconds{0}; }},
};
// A job waits as long as it takes, in the queue.
constexpr std::span<const Option> submit_request_rows = std::span(request_rows).first(std::size(request_rows) - 2);

constexpr Option dry_run_row = {0, "dry-run", "", "show what would be claimed and why these, and claim nothing",
   [](I& i, const W&) { i.run.dry_run = true; }};
constexpr Option ids_row = {0, "ids", "FORM", "what CUDA_VISIBLE_DEVICES holds: auto (default), uuid or index",
   [](I& i, const W& w) { i.run.ids = choice_of(w, "auto|uuid|index"); }, Offer::choices, "auto|uuid|index"};

constexpr bool is_seconds(std::string_view next) { return !next.empty() && next.front() >= '0' && next.front() <= '9'; }

constexpr Option status_rows[] = {
  {0, "list", "", "index, UUID and name of each GPU, tab-separated", [](I& i, const W&) { i.status.list = true; }},
  {'w', "watch", "[TIME]", "show again every TIME (default 2s) until Ctrl-C",
   [](I& i, const W& w) { i.status.watch = w.text.empty() ? Seconds{2} : positive_duration_of(w); },
   Offer::nothing, {}, is_seconds},
};

constexpr Option topo_rows[] = {
  {0, "svg", "FILE", "draw it as a vector picture into FILE (- is stdout)",
   [](I& i, const W& w) { i.topo.svg = text_of(w); }, Offer::files},
  {0, "matrix", "", "how every two devices are joined, in the table of `nvidia-smi topo -m`, for every vendor",
   [](I& i, const W&) { i.topo.matrix = true; }},
};

constexpr Option run_rows[] = {
  dry_run_row, ids_row,
  {0, "in", "CLAIM", "run inside a claim made by `thole claim`: on all its GPUs, or claim of these what -g and the like say",
   [](I& i, const W& w) { i.run.in = text_of(w); }, Offer::claims},
  {0, "linger", "", "when the command ends, wait for the processes it leaves behind instead of ending them",
   [](I& i, const W&) { i.run.linger = true; }},
  {0, "no-supervisor", "", "become the command instead of staying beside it",
   [](I& i, const W&) { i.run.no_supervisor = true; }},
  {0, "status-file", "FILE", "write to FILE, as JSON, who ended and why (- is stdout)",
   [](I& i, const W& w) { i.run.status_file = text_of(w); }, Offer::files},
};

constexpr Option binding_rows[] = {
  {0, "bind", "MODE", "the CPUs it gets: none, node, package, exclusive, l3, core:N or compat (default node, the package "
   "where the node is short of cores)",
   [](I& i, const W& w) { set_bind_mode(i.binding, w); }, Offer::choices, "none|node|package|exclusive|l3|core:1|compat"},
  {0, "mem", "POLICY", "memory: first-touch (default), or preferred, bind, interleave on its nodes; :NODES names others",
   [](I& i, const W& w) { set_memory_policy(i.binding, w); }, Offer::choices, "first-touch|preferred|bind|interleave"},
  {0, "smt", "THREADS", "all threads of its cores, or one (default all)",
   [](I& i, const W& w) { i.binding.smt = *model::parse_smt(choice_of(w, "all|one")); }, Offer::choices, "all|one"},
  {0, "nic", "WHICH", "UCX_NET_DEVICES and NCCL_IB_HCA name the near NICs (default), all, or none",
   [](I& i, const W& w) { i.binding.nic = *model::parse_nic_mode(choice_of(w, "near|all|none")); },
   Offer::choices, "near|all|none"},
  {0, "threads", "N|auto", "set OMP_NUM_THREADS and its like, where unset, to N or to the number of cores",
   [](I& i, const W& w) { set_threads(i.binding, w); }, Offer::choices, "auto|keep"},
  {0, "reserve", "CPUS", "cores nobody gets: a list such as 0,64, or first-of-l3",
   [](I& i, const W& w) { set_reserve(i.binding, w); }, Offer::choices, "first-of-l3|none"},
  {0, "lend", "", "with exclusive: cores of nodes without a GPU go to the nearest GPUs",
   [](I& i, const W&) { i.binding.lend = true; }},
  {0, "balanced", "", "with exclusive: every GPU gets as many cores as the poorest",
   [](I& i, const W&) { i.binding.balanced = true; }},
  {0, "strict", "", "exit 69 before the command starts where it would get less than this",
   [](I& i, const W&) { i.binding.strict = true; }},
  {0, "no-bind", "", "leave CPUs, memory and variables for NICs and threads as they are",
   [](I& i, const W&) { i.binding.off = true; }},
};

constexpr Option bind_rows[] = {
  {'g', "gpus", "N", "how many of them each rank uses (default 1)",
   [](I& i, const W& w) { i.request.gpus = number_of(w, 1, 4096); }},
  {0, "on", "GPU,...", "next to these GPUs (default: those that the environment allots)",
   [](I& i, const W& w) { i.request.on = gpus_of(w); }, Offer::gpus},
  {0, "pid", "PID", "bind a process that runs, with all its threads",
   [](I& i, const W& w) { i.bind.pid = pid_of(w); }},
  {0, "local-rank", "R", "which rank of this machine it is, from 0 (default: what the launcher says)",
   [](I& i, const W& w) { i.bind.local_rank = number_of(w, 0, 65535); }},
  {0, "ranks", "N", "how many ranks this machine has (default: what the launcher says)",
   [](I& i, const W& w) { i.bind.ranks = number_of(w, 1, 65536); }},
  {0, "dry-run", "", "show the plan of all ranks, and bind nothing",
   [](I& i, const W&) { i.run.dry_run = true; }},
};

constexpr Option claim_rows[] = {
  {0, "shell", "", "tie the claim to the calling shell and print the exports: eval \"$(thole claim --shell)\"",
   [](I& i, const W&) { i.claim.shell = true; }},
  {0, "pid", "PID", "hold the claim until the process PID ends",
   [](I& i, const W& w) { i.claim.pid = pid_of(w); }},
  {0, "placeholder", "", "keep a CUDA context on each GPU (0.5 GiB), for safe-gpu and others that look at processes and not "
   "at claims",
   [](I& i, const W&) { i.claim.placeholder = true; }},
  dry_run_row, ids_row,
};

constexpr Option capture_rows[] = {
  {'o', "output", "FILE", "write to FILE instead of stdout",
   [](I& i, const W& w) { i.capture.output = text_of(w); }, Offer::files},
  {0, "from", "FILE|DIR", "take the machine from hwloc XML, nvidia-smi topo -m, nvidia-smi -q -x, or a folder with its /sys "
   "and /proc; - is stdin",
   [](I& i, const W& w) { i.capture.from = text_of(w); }, Offer::files},
  {0, "use", "", "keep the present use too: memory, load, processes", [](I& i, const W&) { i.capture.use = true; }},
  {0, "anonymous", "", "leave out the machine's and the users' names and the command lines; number the UUIDs",
   [](I& i, const W&) { i.capture.anonymous = true; }},
};

constexpr Option init_rows[] = {
  {0, "group", "GROUP", "only members of GROUP may claim, from now on and after every start of the machine",
   [](I& i, const W& w) { i.init.group = text_of(w); i.init.no_group = false; }, Offer::groups},
  {0, "no-group", "", "everybody may claim again", [](I& i, const W&) { i.init.no_group = true; i.init.group.clear(); }},
  {0, "force", "", "go on although GPUs are claimed in a directory without root's protection",
   [](I& i, const W&) { i.init.force = true; }},
  {0, "take-back", "GPU,...", "make these claimable anew, whoever holds them; what still runs there is named",
   [](I& i, const W& w) { i.init.take_back = gpus_of(w); }, Offer::gpus},
};

constexpr Option map_rows[] = {
  {'j', "jobs", "N", "at most N lanes, each on GPUs of its own (default: as many as get GPUs; with -g 0 one for each CPU)",
   [](I& i, const W& w) { i.map.lanes = number_of(w, 1, 4096); }},
  {0, "per-gpu", "K", "K tasks at once on the GPUs of each lane",
   [](I& i, const W& w) { i.map.per_gpu = number_of(w, 1, 1024); }},
  {'a', "arg-file", "FILE", "read items from FILE, one a line (default: stdin)",
   [](I& i, const W& w) { i.map.file = text_of(w); }, Offer::files},
  {'0', "null", "", "items end with a zero byte, as from find -print0", [](I& i, const W&) { i.map.zero = true; }},
  {0, "csv", "", "items are rows; the first row names their columns: {name}", [](I& i, const W&) { i.map.csv = true; }},
  {'k', "keep-order", "", "show output in the order of the items (default: whole, task by task, as they end)",
   [](I& i, const W&) { i.map.keep_order = true; }},
  {0, "line-buffer", "", "show output line by line as it comes", [](I& i, const W&) { i.map.line_buffer = true; }},
  {'u', "ungroup", "", "tasks write straight to stdout and stderr", [](I& i, const W&) { i.map.ungroup = true; }},
  {0, "joblog", "FILE", "write a line for each task to FILE, in GNU parallel's format",
   [](I& i, const W& w) { i.map.wishes.joblog = text_of(w); }, Offer::files},
  {0, "resume", "", "leave out what the joblog names, and go on with it",
   [](I& i, const W&) { i.map.wishes.resume = plan::Resume::done; }},
  {0, "resume-failed", "", "leave out what succeeded by the joblog, and go on with it",
   [](I& i, const W&) { i.map.wishes.resume = plan::Resume::succeeded; }},
  {0, "retries", "N", "try a task that fails up to N times in all",
   [](I& i, const W& w) { i.map.wishes.tries = number_of(w, 1, 1000); }},
  {0, "halt", "WHEN", "end early: soon,fail=1 (what runs may end) or now,fail=1 (it is ended); also success=N, done=N, never",
   [](I& i, const W& w) { i.map.wishes.halt = halt_of(w); }, Offer::choices, "soon,fail=1|now,fail=1|now,success=1|never"},
  {0, "timeout", "TIME", "the same as --time: end a task that takes longer",
   [](I& i, const W& w) { i.request.time = std::chrono::ceil<Seconds>(positive_duration_of(w)); }},
  {0, "dry-run", "", "print the commands, and run none", [](I& i, const W&) { i.run.dry_run = true; }},
  ids_row,
};

constexpr Option compat_rows[] = {
  {0, "wait", "TIME", "claims in the program wait at most this long, such as 30m (default: as long as it takes)",
   [](I& i, const W& w) { i.request.wait = duration_of(w); }},
  {0, "no-wait", "", "claims in the program fail at once where too few are free, as safe-gpu's do",
   [](I& i, const W&) { i.request.wait = Seconds{0}; }},
};

constexpr Option plan_rows[] = {
  {0, "batch", "", "read one JSON request a line from stdin and write one JSON answer a line to stdout",
   [](I& i, const W&) { i.plan.batch = true; }},
};

constexpr Option simulate_rows[] = {
  {0, "history", "", "the jobs of your own queue on this machine instead of a trace",
   [](I& i, const W&) { i.simulate.history = true; }},
  {0, "vc", "NAME", "only the jobs of this virtual cluster (default: all)",
   [](I& i, const W& w) { i.simulate.vc = text_of(w); }},
  {'g', "gpus", "N", "how many GPUs there are, all alike (--history: those of this machine)",
   [](I& i, const W& w) { i.simulate.gpus = number_of(w, 1, model::max_slots); }},
  {0, "max-width", "N", "leave out jobs of more than N GPUs (default: as many as there are)",
   [](I& i, const W& w) { i.simulate.max_width = number_of(w, 1, 4096); }},
  {0, "declared", "FACTOR", "declared time: FACTOR times what a job took, or none (default 2; --history: its own --time)",
   [](I& i, const W& w) { i.simulate.declared = factor_of(w); }},
  {0, "declaring", "PERCENT", "how many of the jobs declare a time, the same ones in each run (default 100%)",
   [](I& i, const W& w) { i.simulate.declaring_percent = percent_of(w); }},
  {0, "policy", "POLICY", "the policy to compare with fifo and first-fit (default thole)",
   [](I& i, const W& w) { i.simulate.policy = choice_of(w, "thole|fifo|first-fit|easy"); },
   Offer::choices, "thole|fifo|first-fit|easy"},
};

constexpr Option jupyter_rows[] = {
  {0, "venv", "DIR", "install: the virtual environment whose Python the kernel runs (default: the active one, else python3)",
   [](I& i, const W& w) { i.jupyter.venv = text_of(w); }, Offer::directories},
  {0, "name", "NAME", "install: what Jupyter calls the kernel (default: such as thole-1gpu-myproject)",
   [](I& i, const W& w) { i.jupyter.name = text_of(w); }},
};

constexpr Example status_examples[] = {
  {"thole", "who has what"},
  {"thole status 3", "all that is known of GPU 3"},
  {"thole --machine dgx-a100 status", "the same on a simulated machine"},
};
constexpr Example why_examples[] = {
  {"thole why 3", "what keeps GPU 3 from being handed out"},
  {"thole why job 12", "what job 12 waits for, or how it ended"},
  {"thole why -g 4 --memory 70G", "would that start now, and if not, what is in the way"},
};
constexpr Example run_examples[] = {
  {"thole run python train.py", "one GPU; waits its turn when none is free"},
  {"thole run -g 2 --memory 20G --time 8h python train.py", "two GPUs with 20 GiB free each, for at most eight hours"},
  {"thole run -g 4 --dry-run true", "which GPUs it would be, and why these"},
};
constexpr Example claim_examples[] = {
  {"eval \"$(thole claim --shell)\"", "a GPU for this shell and what is started from it"},
  {"thole claim -g 2 --time 4h", "two GPUs for four hours; prints the id of the claim"},
  {"thole claim --on 3 --pid 4711", "GPU 3 for a process that runs already"},
};
constexpr Example release_examples[] = {
  {"thole release", "give back the claim of this shell"},
  {"thole release 5f2c19d0a4e8b731", "give back the claim with this id"},
};
constexpr Example extend_examples[] = {
  {"thole extend 2h", "the claim of this shell ends two hours from now"},
  {"thole extend 5f2c19d0a4e8b731 30m", "the claim with this id ends half an hour from now"},
};
constexpr Example topo_examples[] = {
  {"thole topo", "CPUs, memory, GPUs and NICs, what is near what, and who has which GPU"},
  {"thole topo --svg machine.svg", "the same as a picture"},
  {"thole --machine mi250x topo --matrix", "how GPUs and NICs are joined, pair by pair"},
};
constexpr Example bind_examples[] = {
  {"thole bind ./app", "for ./app under srun, mpirun or torchrun: each rank by its GPU"},
  {"thole bind --pid 4711 --on 3", "a process that runs already, next to GPU 3"},
  {"thole bind --ranks 8 --dry-run", "what each of eight ranks would get"},
};
constexpr Example doctor_examples[] = {
  {"thole doctor", "what is wrong on this machine and how to mend it"},
  {"thole doctor --json", "the same for a program"},
};
constexpr Example capture_examples[] = {
  {"thole capture -o lab.json", "this machine as a file; elsewhere: thole --machine lab.json"},
  {"thole capture --from node7.xml -o node7.json", "another one, from what lstopo node7.xml wrote there"},
  {"thole capture --use --anonymous", "with the present use, without names; to attach to a report"},
};
constexpr Example init_examples[] = {
  {"sudo thole init", "make /run/thole and a node for each GPU"},
  {"sudo thole init --group gpu", "the same, for members of the group gpu only"},
  {"sudo thole init --take-back 3", "when GPU 3 is kept by a process that cannot be ended"},
};

constexpr Example map_examples[] = {
  {"thole map python eval.py ::: *.ckpt", "each checkpoint on a GPU of its own, as many at once as there are free"},
  {"thole map --per-gpu 2 --joblog log python train.py --seed {} ::: 1 2 3 4", "two at once on each GPU, with a log"},
  {"thole map --csv -a runs.csv --joblog log --resume-failed ./train --lr {lr}", "again what has failed"},
};
constexpr Example simulate_examples[] = {
  {"thole simulate jobs.csv --gpus 8", "how long the jobs of a trace would have waited on eight GPUs"},
  {"thole simulate jobs.csv --vc 11cb48 --gpus 16 --declared 2.0 --json", "those of one team, for a program"},
  {"thole simulate --history --gpus 6", "your own queue's past, with two GPUs less"},
};
constexpr Example jupyter_examples[] = {
  {"thole jupyter install -g 1 --venv .venv", "a kernel with a GPU of its own, for Jupyter to offer"},
  {"thole jupyter install -g 2 --memory 20G --name two", "one with two GPUs of 20 GiB free memory"},
  {"thole jupyter list", "the kernels that thole made"},
};
constexpr Example compat_examples[] = {
  {"thole compat -- python train.py", "safe_gpu.claim_gpus() waits in line, what GPUtil picks is claimed"},
  {"thole compat --no-wait -- python train.py", "an error where too few are free, as with safe-gpu itself"},
  {"thole compat -- torchrun --nproc-per-node 8 train.py", "ranks that call gpu_affinity.set_affinity()"},
};
constexpr Example plan_examples[] = {
  {"thole plan --batch < requests > answers", "what each of many requests would get; docs/plan.md"},
};

constexpr Verb verb_rows[] = {
  {"status", "see", "who has what: one line a GPU", "[GPU...]", status_rows, {}, status_examples, Offer::gpus, 0, 128},
  {"why", "see", "explain a GPU's state, a claim, or what a job or a request waits for", "[GPU...|JOB...|CLAIM...]", {},
   request_rows,
   why_examples,
   Offer::gpus, 0, 128},
  {"run", "run", "claim GPUs, wait if needed, run a command", "COMMAND [ARGUMENT...]", run_rows, request_rows, run_examples,
   Offer::command, 1, ~std::size_t{0}, false, binding_rows},
  {"map", "run", "run a command for each of many items, side by side on claimed GPUs", "COMMAND [ARGUMENT...] [::: ITEM...]",
   map_rows,
   request_rows, map_examples, Offer::command, 1, ~std::size_t{0}, false, binding_rows},
  {"claim", "run", "claim GPUs without a command", "", claim_rows, request_rows, claim_examples},
  {"release", "run", "give a claim back", "[CLAIM...]", {}, {}, release_examples, Offer::claims, 0, 128},
  {"extend", "run", "give a claim a new end", "[CLAIM] TIME", {}, {}, extend_examples, Offer::claims, 1, 2},
  {"submit", "queue", "put a command, or many, into the queue", "[COMMAND [ARGUMENT...]]", queue_rows::submit,
   submit_request_rows,
   queue_rows::submit_examples, Offer::command, 0, ~std::size_t{0}, false, binding_rows},
  {"jobs", "queue", "what is queued, runs and has ended, and what it waits for", "[JOB...]", queue_rows::jobs, {},
   queue_rows::jobs_examples, Offer::jobs, 0, 128},
  {"logs", "queue", "the output of tasks", "[JOB...]", queue_rows::logs, {}, queue_rows::logs_examples, Offer::jobs, 0, 128},
  {"wait", "queue", "wait until jobs have ended", "[JOB...]", queue_rows::wait, {}, queue_rows::wait_examples, Offer::jobs, 0,
   128},
  {"cancel", "queue", "take tasks out of the queue, and end running ones", "JOB...", queue_rows::cancel, {},
   queue_rows::cancel_examples, Offer::jobs, 1, 128},
  {"retry", "queue", "queue again what has not succeeded", "JOB...", {}, {}, queue_rows::retry_examples, Offer::jobs, 1, 128},
  {"hold", "queue", "keep queued tasks from starting", "JOB...", {}, {}, queue_rows::hold_examples, Offer::jobs, 1, 128},
  {"resume", "queue", "undo `hold`", "JOB...", {}, {}, queue_rows::resume_examples, Offer::jobs, 1, 128},
  {"pause", "queue", "stop running tasks where they are", "JOB...", {}, {}, queue_rows::pause_examples, Offer::jobs, 1, 128},
  {"continue", "queue", "undo `pause`", "JOB...", {}, {}, queue_rows::proceed_examples, Offer::jobs, 1, 128},
  {"drain", "queue", "let running tasks finish and start none", "", queue_rows::drain, {}, queue_rows::drain_examples},
  {"edit", "queue", "change the terms of what has not started", "JOB...", queue_rows::edit, {}, queue_rows::edit_examples,
   Offer::jobs, 1, 128},
  {"jupyter", "run", "notebook kernels that start with GPUs of their own", "install|list|remove [NAME...]", jupyter_rows,
   request_rows,
   jupyter_examples, Offer::kernels, 1, 128},
  {"topo", "machine", "draw the machine: what is near what, and who has it", "", topo_rows, {}, topo_examples},
  {"bind", "run", "bind a rank that another launcher starts, or a running process", "[COMMAND [ARGUMENT...]]", bind_rows, {},
   bind_examples, Offer::command, 0, ~std::size_t{0}, false, binding_rows},
  {"compat", "run", "run a program of safe_gpu, GPUtil or gpu_affinity on claims", "COMMAND [ARGUMENT...]", compat_rows,
   {}, compat_examples, Offer::command, 1, ~std::size_t{0}},
  {"doctor", "machine", "what is wrong, and how to mend it", "", {}, {}, doctor_examples},
  {"capture", "machine", "this machine, or another, as a file", "", capture_rows, {}, capture_examples},
  {"init", "machine", "make the state directory", "", init_rows, {}, init_examples},
  {"plan", "", "which GPUs and CPUs it would be, for programs that ask for many machines", "", plan_rows, {}, plan_examples},
  {"simulate", "queue", "what the queue's rule makes of recorded jobs, beside plain order", "[TRACE]", simulate_rows, {},
   simulate_examples,
   Offer::files, 0, 1},
  {"completion", "", "print the completion script for a shell", "bash|zsh|fish", {}, {}, {}, Offer::nothing, 1, 1},
  {"__complete", "", "what completion asks", "", {}, {}, {}, Offer::nothing, 0, 0, true},
  {"__probe", "", "the process that calls vendor libraries", "", {}, {}, {}, Offer::nothing, 0, 0, true},
  {"__runner", "", "the process that works on the queue", "[relieve]", {}, {}, {}, Offer::nothing, 0, 1, true},
  {"__placeholder", "", "the process that makes claimed GPUs look used", "", {}, {}, {}, Offer::nothing, 0, 0, true},
};
// clang-format on

}  // namespace

std::span<const Verb> verbs() { return verb_rows; }
std::span<const Option> global_options() { return global_rows; }

const Verb* find_verb(std::string_view name) {
  for (const Verb& verb : verb_rows)
    if (verb.name == name) return &verb;
  return nullptr;
}

std::vector<const Option*> options_of(const Verb& verb) {
  std::vector<const Option*> all;
  for (std::span<const Option> rows : {verb.own, verb.request, verb.binding, global_options()})
    for (const Option& row : rows) all.push_back(&row);
  return all;
}

}  // namespace thole::cli
