#include "app/map/map.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "app/map/wishes.hpp"
#include "base/aside.hpp"
#include "base/fd.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/context.hpp"
#include "cli/line/binding.hpp"
#include "cli/line/request.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/outlet.hpp"
#include "cli/result_target.hpp"
#include "cli/show/map_output.hpp"
#include "cli/show/progress.hpp"

namespace thole::cli {

namespace {

struct MapOptions {
  unsigned lanes = 0;  // 0 = as many as get GPUs; without GPUs one for each CPU
  unsigned per_gpu = 1;
  std::string file;    // of items; "" = stdin
  bool zero = false, csv = false;
  bool keep_order = false, ungroup = false, line_buffer = false;
  app::MapWishes wishes;
};

plan::Halt halt_of(const Word& word) {
  const auto halt = plan::parse_halt(word.text);
  if (!halt) throw_expected(word, "never, or soon or now with fail, success or done and a number, such as now,fail=1");
  return *halt;
}

constexpr Option map_options[] = {
  {'j', "jobs", "N", "at most N lanes, each on GPUs of its own (default: as many as get GPUs; with -g 0 one for each CPU)",
   [](MapOptions& o, const Word& w) { o.lanes = number_of(w, 1, 4096); }},
  {0, "per-gpu", "K", "K tasks at once on the GPUs of each lane",
   [](MapOptions& o, const Word& w) { o.per_gpu = number_of(w, 1, 1024); }},
  {'a', "arg-file", "FILE", "read items from FILE, one a line (default: stdin)",
   [](MapOptions& o, const Word& w) { o.file = text_of(w); }, Offer::files},
  {'0', "null", "", "items end with a zero byte, as from find -print0", [](MapOptions& o, const Word&) { o.zero = true; }},
  {0, "csv", "", "items are rows; the first row names their columns: {name}", [](MapOptions& o, const Word&) { o.csv = true; }},
  {'k', "keep-order", "", "show output in the order of the items (default: whole, task by task, as they end)",
   [](MapOptions& o, const Word&) { o.keep_order = true; }},
  {0, "line-buffer", "", "show output line by line as it comes", [](MapOptions& o, const Word&) { o.line_buffer = true; }},
  {'u', "ungroup", "", "tasks write straight to stdout and stderr", [](MapOptions& o, const Word&) { o.ungroup = true; }},
  {0, "joblog", "FILE", "write a line for each task to FILE, in GNU parallel's format",
   [](MapOptions& o, const Word& w) { o.wishes.joblog = text_of(w); }, Offer::files},
  {0, "resume", "", "leave out what the joblog names, and go on with it",
   [](MapOptions& o, const Word&) { o.wishes.resume = plan::Resume::done; }},
  {0, "resume-failed", "", "leave out what succeeded by the joblog, and go on with it",
   [](MapOptions& o, const Word&) { o.wishes.resume = plan::Resume::succeeded; }},
  {0, "retries", "N", "try a task that fails up to N times in all",
   [](MapOptions& o, const Word& w) { o.wishes.tries = number_of(w, 1, 1000); }},
  {0, "halt", "WHEN", "end early: soon,fail=1 (what runs may end) or now,fail=1 (it is ended); also success=N, done=N, never",
   [](MapOptions& o, const Word& w) { o.wishes.halt = halt_of(w); },
   Offer::choices, "soon,fail=1|now,fail=1|now,success=1|never"},
  in_whole_seconds({0, "timeout", "TIME", "the same as --time: end a task that takes longer",
   [](model::Request& r, const Word& w) { r.time = std::chrono::ceil<Seconds>(positive_duration_of(w)); }}),
  {0, "dry-run", "", "print the commands, and run none", [](Invocation& i, const Word&) { i.dry_run = true; }},
  ids_row,
};

constexpr std::size_t longest_shown = 4096;   // columns of a command

// The line, taken apart at ":::".
struct MapWords {
  std::vector<std::string> command;
  std::vector<std::vector<std::string>> lists;
};

// What separates items for GNU parallel and not here would be a word of the command, and the items be awaited from stdin.
void refuse_other_separator(std::string_view word) {
  const bool files = word == "::::" || word == "::::+";
  if (!files && word != ":::+") return;
  throw Error(ErrorCode::usage, fmt::format("map: {} is GNU parallel's", word))
      .hint(files ? "items from a file, one a line: -a FILE"
                  : "lists that go side by side are columns: --csv; after each ::: a list of which all combinations are made");
}

MapWords take_apart(const Invocation& invocation) {
  MapWords words;
  bool in_lists = false;
  for (const std::string& word : invocation.words) {
    refuse_other_separator(word);
    if (word == ":::") {
      in_lists = true;
      words.lists.emplace_back();
    } else {
      (in_lists ? words.lists.back() : words.command).push_back(word);
    }
  }
  if (words.command.empty())
    throw Error(ErrorCode::usage, "map: no command before :::")
        .hint("items that are whole commands: thole map sh -c {} ::: ITEM...");
  const MapOptions& map = invocation.own.as<MapOptions>();
  if (map.wishes.resume != plan::Resume::none && map.wishes.joblog.empty())
    throw Error(ErrorCode::usage, "--resume and --resume-failed go with --joblog FILE");
  if ((map.ungroup || map.line_buffer) && (invocation.global.json || map.keep_order))
    throw Error(ErrorCode::usage, "--ungroup and --line-buffer show output as it comes: not with --keep-order or --json");
  if (map.ungroup && map.line_buffer) throw Error(ErrorCode::usage, "--ungroup and --line-buffer exclude each other");
  if (map.csv && map.zero) throw Error(ErrorCode::usage, "--csv and -0 exclude each other");
  if (in_lists && (!map.file.empty() || map.zero || map.csv))
    throw Error(ErrorCode::usage, "map: items come after :::, or from a file or stdin, not both");
  return words;
}

struct MapInput {
  std::unique_ptr<app::ItemSource> items;
  std::vector<std::string> columns;
  std::size_t cells = 1;
};

MapInput input_of(const Context& context, MapWords& words) {
  const MapOptions& map = context.invocation.own.as<MapOptions>();
  if (!words.lists.empty()) {
    const std::size_t cells = words.lists.size();
    return {std::make_unique<app::ListedItems>(std::move(words.lists)), {}, cells};
  }
  const bool from_stdin = map.file.empty() || map.file == "-";
  if (from_stdin && is_terminal(STDIN_FILENO)) context.note("reading items from the terminal; Ctrl-D ends them");
  Fd file(from_stdin ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : ::open(map.file.c_str(), O_RDONLY | O_CLOEXEC));
  const std::string name = from_stdin ? "stdin" : map.file;
  if (!file) throw Error(ErrorCode::unavailable, "cannot read the items").about(name).because(errno);
  if (!map.csv) return {std::make_unique<app::ItemLines>(std::move(file), name, map.zero ? '\0' : '\n'), {}, 1};
  MapInput input;
  input.items = app::csv_items(file, name, input.columns);
  input.cells = input.columns.size();
  return input;
}

// --dry-run: the commands, and nothing else.
int show_commands(const Context& context, app::ItemSource& items, const plan::MapTemplate& command,
                  const std::vector<bool>& done) {
  std::vector<std::string> cells, words;
  for (std::uint64_t number = 1;; ++number) {
    app::ItemSource::Next next;
    while ((next = items.next(cells)) == app::ItemSource::Next::later) {
      pollfd more{items.fd(), POLLIN, 0};
      ::poll(&more, 1, -1);
    }
    if (next == app::ItemSource::Next::end) return 0;
    if (number < done.size() && done[number]) continue;
    command.fill({cells, number, 1}, words);
    if (context.invocation.global.json)
      context.print_json({{"schema", "thole/map/1"}, {"event", "dry-run"}, {"number", number}, {"item", cells},
                          {"command", words}}, -1);
    else
      context.print(printable(command_line(words), longest_shown) + "\n");
  }
}

unsigned cpus_of(Context& context) {
  return std::max(1u, static_cast<unsigned>(context.wire.bind_site().binder.allowed_cpus().size()));
}

app::MapRequest request_of(Context& context, const std::vector<std::string>& command) {
  const Invocation& invocation = context.invocation;
  const MapOptions& options = invocation.own.as<MapOptions>();
  app::MapRequest wanted;
  wanted.lane.request = invocation.request;
  wanted.lane.argv = command;
  wanted.lane.ids = context.ids();
  wanted.lane.bind = context.binding(model::BindOptions::for_command());
  wanted.lane.carry = context.carry();
  wanted.lanes = options.lanes;
  wanted.per_lane = options.per_gpu;
  if (invocation.request.gpus == 0) {    // one lane without GPUs
    wanted.per_lane *= wanted.lanes > 0 ? wanted.lanes : cpus_of(context);
    wanted.lanes = 1;
  }
  wanted.tries = options.wishes.tries;
  wanted.halt = options.wishes.halt;
  return wanted;
}

port::OutputTo output_of(const MapOptions& map) {
  if (map.ungroup) return port::OutputTo::ours;
  return map.line_buffer ? port::OutputTo::pipes : port::OutputTo::files;
}

// Only the first wait is told, and what it led to: lanes come and go all the time. Used by the thread that claims.
struct FirstWait { bool waited = false, got = false; };

app::RunEvents quieter(const Context& context, app::RunEvents events, FirstWait& told) {
  if (context.invocation.global.verbose || context.invocation.global.json) return events;
  events.waiting = [&told, tell = events.waiting](const app::Standing& standing) {
    if (told.got) return;
    told.waited = true;
    tell(standing);
  };
  events.got = [&told, tell = events.got](const app::Acquired& acquired) {
    if (told.waited && !told.got) tell(acquired);
    told.got = true;
  };
  return events;
}

void end_by(Context& context, int signal) {
  port::Ended ended;
  ended.signal = signal;
  context.wire.processes().end_as(ended);
}

int map(Context& context) {
  const MapOptions& options = context.invocation.own.as<MapOptions>();
  MapWords words = take_apart(context.invocation);
  const std::string items = !words.lists.empty() ? "" : options.file.empty() ? "-" : options.file;
  refuse_input_as_result(context, "--joblog", options.wishes.joblog, items);
  MapInput input = input_of(context, words);
  const plan::MapTemplate command(words.command, input.columns, input.cells);
  if (context.invocation.dry_run)
    return show_commands(context, *input.items, command,
                         app::JobLogFile::read_done(options.wishes.joblog, options.wishes.resume));
  Outlet outlet(Outlet::Writers::at_once);   // limits, the door and signals are heard whoever reads
  app::JobLogFile log(options.wishes.joblog, options.wishes.resume,
                      [&outlet](int fd, std::string_view bytes) { return outlet.put(fd, bytes); });
  app::MapRequest wanted = request_of(context, words.command);
  wanted.done = log.done();

  Progress progress(context);
  FirstWait first_wait;
  MapOutput output(context, outlet, options.wishes.joblog.empty() ? nullptr : &log, options.keep_order,
                   context.wire.folder_of_outputs());
  const app::RunPorts ports = context.wire.run_ports();
  const auto pool = context.wire.task_pool(output_of(options));
  AsideThread aside;
  try {
    const app::MapOutcome outcome =
        app::map({ports.site, ports.bind, ports.make_door, aside, *pool, *input.items, command}, wanted,
                 output.events(quieter(context, progress.events(), first_wait)));
    if (outcome.failure) {
      output.finish_after(outcome);
      std::rethrow_exception(outcome.failure);
    }
    output.finish();
    const int status = plan::map_exit_status(wanted.halt, outcome.counts, outcome.halted_by);
    output.say_end(outcome, outcome.interrupted ? 128 + *outcome.interrupted : status);
    if (const auto number = output.wait_until_read(outcome)) end_by(context, *number);
    return status;
  } catch (const Error& error) {
    const bool is_log = !error.object().empty() && error.object() == options.wishes.joblog;
    if (error.sys_errno() != EPIPE || is_log) throw;
    end_by(context, SIGPIPE);            // as any program whose reader has gone
    throw;                               // not reached
  }
}

constexpr Example map_examples[] = {
  {"thole map python eval.py ::: *.ckpt", "each checkpoint on a GPU of its own, as many at once as there are free"},
  {"thole map --per-gpu 2 --joblog log python train.py --seed {} ::: 1 2 3 4", "two at once on each GPU, with a log"},
  {"thole map --csv -a runs.csv --joblog log --resume-failed ./train --lr {lr}", "again what has failed"},
};

}  // namespace

extern constexpr Verb map_verb = {
    .name = "map",
    .group = "run",
    .summary = "run a command for each of many items, side by side on claimed GPUs",
    .operands = "COMMAND [ARGUMENT...] [::: ITEM...]",
    .options = map_options,
    .request = request_rows,
    .binding = binding_rows,
    .examples = map_examples,
    .offer = Offer::command,
    .min_words = 1,
    .max_words = ~std::size_t{0},
    .tells_events = [](const Invocation&) { return true; },
    .standard_output = Stdout::lines,
    .run = map,
};

}  // namespace thole::cli
