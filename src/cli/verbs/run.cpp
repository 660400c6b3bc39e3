#include "app/claim/run.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <string>
#include <vector>

#include "base/printable_lines.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/line/binding.hpp"
#include "cli/line/request.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/outlet.hpp"
#include "cli/result_target.hpp"
#include "cli/show/progress.hpp"
#include "cli/show/render_run.hpp"

namespace thole::cli {

namespace {

struct RunOptions {
  bool linger = false;
  bool no_supervisor = false;
  std::string status_file;
  std::string in;  // the claim to run in
};

constexpr Option run_options[] = {
  dry_run_row, ids_row,
  {0, "in", "CLAIM", "run inside a claim made by `thole claim`: on all its GPUs, or claim of these what -g and the like say",
   [](RunOptions& o, const Word& w) { o.in = text_of(w); }, Offer::claims},
  {0, "linger", "", "when the command ends, wait for the processes it leaves behind instead of ending them",
   [](RunOptions& o, const Word&) { o.linger = true; }},
  {0, "no-supervisor", "", "become the command instead of staying beside it",
   [](RunOptions& o, const Word&) { o.no_supervisor = true; }},
  {0, "status-file", "FILE", "write to FILE, as JSON, who ended and why (- is stdout)",
   [](RunOptions& o, const Word& w) { o.status_file = text_of(w); }, Offer::files},
};

void check_run(const Invocation& line) {
  const RunOptions& options = line.own.as<RunOptions>();
  if (!options.in.empty() && line.dry_run)
    throw Error(ErrorCode::usage, "--dry-run shows no claim inside another: it goes without --in");
  if (!options.no_supervisor) return;
  for (std::string_view name : {"time", "linger", "status-file"})
    if (line.given(name)) throw Error(ErrorCode::usage, fmt::format("--no-supervisor leaves nobody behind to do --{}", name));
}

// Before hours in line and at work. What lies there from an earlier run stays: who waits for the file must not find it empty.
void try_status_file(Context& context) {
  const std::string& path = context.invocation.own.as<RunOptions>().status_file;
  if (path.empty()) return;
  refuse_input_as_result(context, "--status-file", path);
  try_result(path);
}

// The command's own status is worth more than this file.
void write_status(const Context& context, const model::Json& ended) {
  const std::string& path = context.invocation.own.as<RunOptions>().status_file;
  if (path.empty()) return;
  ::signal(SIGPIPE, SIG_IGN);                // nor does the end of who reads it end us
  try {
    write_result(path, model::dump(ended) + "\n", Appending::at_once);   // a pipe that nobody reads keeps nobody
  } catch (const Error& error) {
    context.warn("--status-file: " + in_one_line(error.full()));
  }
}

// What --time or a release did to the command is not to be told from its exit status.
void say_how_it_ended(const Context& context, const port::Ended& ended) {
  // The end may have come from `thole extend` alone.
  const auto& time = context.invocation.request.time;
  if (ended.time_limit)
    context.warn("the command was ended: its time is over" +
                 (time ? fmt::format(" (--time {}, or thole extend)", format_duration(*time)) : std::string()));
  if (ended.released) context.warn("the command was ended: its claim was released");
}

// What a multiplexer starts lives in its server, which ends with this command, and that ends when it is detached. For people at
// a terminal; where it is told to attach or to list no server begins.
void say_of_multiplexers(const Context& context) {
  const std::vector<std::string>& words = context.invocation.words;
  const std::string name = last_part(words.front());
  const bool tmux = name == "tmux" && (words.size() == 1 || words[1].starts_with("new"));
  const bool screen = name == "screen" && (words.size() == 1 || words[1] == "-S");
  if ((!tmux && !screen) || !is_terminal(STDERR_FILENO)) return;
  context.note(fmt::format("when {0} is detached, this command is over, and what runs in it is ended; to come back to it: "
                           "start {0} first, and thole run in it", name));
}

int run(Context& context) {
  const Invocation& invocation = context.invocation;
  const RunOptions& options = invocation.own.as<RunOptions>();
  if (invocation.dry_run) return show_preview(context);
  app::RunRequest wanted;
  wanted.request = invocation.request;
  wanted.argv = invocation.words;
  wanted.ids = context.ids();
  wanted.linger = options.linger;
  wanted.supervised = !options.no_supervisor;
  wanted.in = options.in;
  wanted.part_of_it = std::ranges::any_of(which_gpus, [&](const Option& row) { return invocation.given(row.name); });
  wanted.bind = context.binding(model::BindOptions::for_command());
  wanted.carry = context.carry();

  Outlet outlet;                             // a few words must not hold up the command's life
  const std::vector<int> cancel{context.wire.interruption()};
  try_status_file(context);
  if (!wanted.linger) say_of_multiplexers(context);
  Progress progress(context);
  port::Ended ended;
  try {
    ended = app::run(context.wire.run_ports(), wanted, progress.events(), cancel);
  } catch (const Error& error) {
    write_status(context, ended_to_json(error));
    throw;
  }
  say_how_it_ended(context, ended);
  progress.ended(ended);
  write_status(context, ended_to_json(ended));
  outlet.drain(cancel);
  context.wire.processes().end_as(ended);
  return 0;  // not reached; the compiler does not see that through the port
}

constexpr Example run_examples[] = {
  {"thole run python train.py", "one GPU; waits its turn when none is free"},
  {"thole run -g 2 --memory 20G --time 8h python train.py", "two GPUs with 20 GiB free each, for at most eight hours"},
  {"thole run -g 4 --dry-run true", "which GPUs it would be, and why these"},
};

}  // namespace

extern constexpr Verb run_verb = {
    .name = "run",
    .group = "run",
    .summary = "claim GPUs, wait if needed, run a command",
    .operands = "COMMAND [ARGUMENT...]",
    .options = run_options,
    .request = request_rows,
    .binding = binding_rows,
    .examples = run_examples,
    .offer = Offer::command,
    .min_words = 1,
    .max_words = ~std::size_t{0},
    .check = check_run,
    .tells_events = [](const Invocation& line) { return !line.dry_run; },
    .standard_output = Stdout::of_the_command,
    .run = run,
};

}  // namespace thole::cli
