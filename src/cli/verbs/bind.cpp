// bind: a rank that another launcher starts, or a process that runs.
#include <optional>

#include "app/claim/binding_json.hpp"
#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/line/binding.hpp"
#include "cli/line/request.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/show/progress.hpp"
#include "cli/show/render_binding.hpp"

namespace thole::cli {

namespace {

struct BindCommandOptions {
  std::optional<pid_t> pid;             // a process that runs, instead of a command
  std::optional<unsigned> local_rank, ranks;
};

constexpr Option bind_options[] = {
  {'g', "gpus", "N", "how many of them each rank uses (default 1)",
   [](model::Request& r, const Word& w) { r.gpus = number_of(w, 1, 4096); }},
  {0, "on", "GPU,...", "next to these GPUs (default: those that the environment allots)",
   [](model::Request& r, const Word& w) { r.on = gpus_of(w); }, Offer::gpus},
  {0, "pid", "PID", "bind a process that runs, with all its threads",
   [](BindCommandOptions& o, const Word& w) { o.pid = pid_of(w); }},
  {0, "local-rank", "R", "which rank of this machine it is, from 0 (default: what the launcher says)",
   [](BindCommandOptions& o, const Word& w) { o.local_rank = number_of(w, 0, app::most_ranks - 1); }},
  {0, "ranks", "N", "how many ranks this machine has (default: what the launcher says)",
   [](BindCommandOptions& o, const Word& w) { o.ranks = number_of(w, 1, app::most_ranks); }},
  {0, "dry-run", "", "show the plan of all ranks, and bind nothing",
   [](Invocation& i, const Word&) { i.dry_run = true; }},
};

void check_bind(const Invocation& line) {
  const BindCommandOptions& options = line.own.as<BindCommandOptions>();
  if (options.pid && !line.words.empty())
    throw Error(ErrorCode::usage, "bind: a command and --pid exclude each other");
  if (!options.pid && line.words.empty() && !line.dry_run)
    throw Error(ErrorCode::usage, "bind: a command or --pid missing")
        .hint(fmt::format("such as: {}", line.verb->examples.front().line));
  if (options.pid && (options.local_rank || options.ranks))
    throw Error(ErrorCode::usage, "--local-rank and --ranks go with a command");
  if (options.pid && line.binding.memory && *line.binding.memory != model::MemoryPolicy::first_touch)
    throw Error(ErrorCode::usage, "the memory policy of a process that runs cannot be set from outside")
        .hint("start it with: thole run --mem");
  if (options.local_rank && options.ranks && *options.local_rank >= *options.ranks)
    throw Error(ErrorCode::usage,
                fmt::format("--local-rank {} of --ranks {}: ranks count from 0", *options.local_rank, *options.ranks));
}

int bind_running(Context& context, app::RankSite& site) {
  const Invocation& invocation = context.invocation;
  const pid_t pid = *invocation.own.as<BindCommandOptions>().pid;
  const model::BindOptions options = context.binding(model::BindOptions::for_command());
  const app::Rebound rebound = app::bind_process(site, pid, options, invocation.request.on);
  if (invocation.global.json)
    context.print_json(rebound_to_json(rebound, pid));
  else
    context.print(fold(render_rebound(rebound, pid), context.screen.columns));
  return 0;
}

int show_ranks(Context& context, const app::Rank& rank) {
  if (!context.invocation.global.json) {
    context.print(fold(render_ranks(rank.binding), context.screen.columns));
    return 0;
  }
  model::Json json = {{"schema", "thole/binding/1"}};
  json.update(binding_to_json(rank.binding));
  context.print_json(json);
  return 0;
}

int bind(Context& context) {
  const Invocation& invocation = context.invocation;
  const BindCommandOptions& line = invocation.own.as<BindCommandOptions>();
  app::RankSite site = context.wire.rank_site();
  if (line.pid) return bind_running(context, site);

  app::RankRequest wanted;
  wanted.options = context.binding(model::BindOptions::for_command());
  wanted.on = invocation.request.on;
  wanted.gpus_per_rank = invocation.request.gpus;
  wanted.local_rank = line.local_rank;
  wanted.ranks = line.ranks;
  if (invocation.dry_run && wanted.ranks && !wanted.local_rank) wanted.local_rank = 0;  // whichever: all are shown
  const app::Rank rank = app::plan_rank(site, wanted);
  if (invocation.dry_run) return show_ranks(context, rank);

  app::refuse_taken_around(site, rank);
  Progress progress(context);
  progress.binding(rank.binding, rank.rank);
  app::become_rank(context.wire.processes(), rank, invocation.words,
                   [&](const app::ReadBack& answer) { progress.bound(rank.binding, rank.rank, answer); });
  return 0;  // not reached
}

constexpr Example bind_examples[] = {
  {"thole bind ./app", "for ./app under srun, mpirun or torchrun: each rank by its GPU"},
  {"thole bind --pid 4711 --on 3", "a process that runs already, next to GPU 3"},
  {"thole bind --ranks 8 --dry-run", "what each of eight ranks would get"},
};

}  // namespace

extern constexpr Verb bind_verb = {
    .name = "bind",
    .group = "run",
    .summary = "bind a rank that another launcher starts, or a running process",
    .operands = "[COMMAND [ARGUMENT...]]",
    .options = bind_options,
    .binding = binding_rows,
    .examples = bind_examples,
    .offer = Offer::command,
    .max_words = ~std::size_t{0},
    .check = check_bind,
    .tells_events = [](const Invocation& line) { return !line.dry_run && !line.words.empty(); },
    .standard_output = Stdout::of_the_command,
    .run = bind,
};

}  // namespace thole::cli
