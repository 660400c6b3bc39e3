#include "app/map/map.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "base/fd.hpp"
#include "base/text.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "cli/result_place.hpp"
#include "cli/show/map_output.hpp"
#include "cli/show/progress.hpp"

namespace thole::cli {

namespace {

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
  const MapOptions& map = invocation.map;
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
  const MapOptions& map = context.invocation.map;
  if (!words.lists.empty()) {
    const std::size_t cells = words.lists.size();
    return {std::make_unique<app::ListedItems>(std::move(words.lists)), {}, cells};
  }
  const bool from_stdin = map.file.empty() || map.file == "-";
  if (from_stdin && ::isatty(STDIN_FILENO)) context.note("reading items from the terminal; Ctrl-D ends them");
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
  app::MapRequest wanted;
  wanted.lane.request = invocation.request;
  wanted.lane.argv = command;
  wanted.lane.ids = context.ids();
  wanted.lane.bind = context.binding(model::BindOptions::for_command());
  wanted.lane.carry = context.carry();
  wanted.lanes = invocation.map.lanes;
  wanted.per_lane = invocation.map.per_gpu;
  if (invocation.request.gpus == 0) {    // one lane without GPUs
    wanted.per_lane *= wanted.lanes > 0 ? wanted.lanes : cpus_of(context);
    wanted.lanes = 1;
  }
  wanted.tries = invocation.map.wishes.tries;
  wanted.halt = invocation.map.wishes.halt;
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

}  // namespace

int map(Context& context) {
  const MapOptions& options = context.invocation.map;
  MapWords words = take_apart(context.invocation);
  const std::string items = !words.lists.empty() ? "" : options.file.empty() ? "-" : options.file;
  refuse_input_as_result(context, "--joblog", options.wishes.joblog, items);
  MapInput input = input_of(context, words);
  const plan::MapTemplate command(words.command, input.columns, input.cells);
  if (context.invocation.run.dry_run)
    return show_commands(context, *input.items, command,
                         app::JobLogFile::read_done(options.wishes.joblog, options.wishes.resume));
  app::JobLogFile log(options.wishes.joblog, options.wishes.resume);
  app::MapRequest wanted = request_of(context, words.command);
  wanted.done = log.done();

  Progress progress(context);
  FirstWait first_wait;
  MapOutput output(context, log);
  const app::RunPorts ports = context.wire.run_ports();
  const auto pool = context.wire.task_pool(output_of(options));
  app::MapOutcome outcome;
  try {
    outcome =
        app::map({ports, *pool, *input.items, command}, wanted, output.events(quieter(context, progress.events(), first_wait)));
    output.finish();
  } catch (const Error& error) {
    if (output.interrupted_by()) end_by(context, *output.interrupted_by());
    if (error.sys_errno() != EPIPE) throw;
    end_by(context, SIGPIPE);            // as any program whose reader has gone
  }
  const int status = plan::map_exit_status(wanted.halt, outcome.counts, outcome.halted_by);
  output.say_end(outcome, outcome.interrupted ? 128 + *outcome.interrupted : status);
  if (outcome.interrupted) end_by(context, *outcome.interrupted);
  return status;
}

}  // namespace thole::cli
