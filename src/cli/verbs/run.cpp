#include "app/claim/run.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include "base/printable_lines.hpp"
#include "base/text.hpp"
#include "cli/commands.hpp"
#include "cli/result_place.hpp"
#include "cli/show/progress.hpp"
#include "cli/show/render_run.hpp"

namespace thole::cli {

namespace {

// Before hours in line and at work. What lies there from an earlier run stays: who waits for the file must not find it empty.
void try_status_file(Context& context) {
  const std::string& path = context.invocation.run.status_file;
  if (path.empty()) return;
  refuse_input_as_result(context, "--status-file", path);
  try_result(result_place(path));
}

// The command's own status is worth more than this file.
void write_status(const Context& context, const model::Json& ended) {
  const std::string& path = context.invocation.run.status_file;
  if (path.empty()) return;
  ::signal(SIGPIPE, SIG_IGN);                // nor does the end of who reads it end us
  try {
    write_result(result_place(path), model::dump(ended) + "\n", O_NONBLOCK);   // a pipe that nobody reads keeps nobody
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
  if ((!tmux && !screen) || !::isatty(STDERR_FILENO)) return;
  context.note(fmt::format("when {0} is detached, this command is over, and what runs in it is ended; to come back to it: "
                           "start {0} first, and thole run in it", name));
}

}  // namespace

int run(Context& context) {
  const Invocation& invocation = context.invocation;
  if (invocation.run.dry_run) return show_preview(context);
  app::RunRequest wanted;
  wanted.request = invocation.request;
  wanted.argv = invocation.words;
  wanted.ids = context.ids();
  wanted.linger = invocation.run.linger;
  wanted.supervised = !invocation.run.no_supervisor;
  wanted.in = invocation.run.in;
  wanted.part_of_it = invocation.run.part_of_it;
  wanted.bind = context.binding(model::BindOptions::for_command());
  wanted.carry = context.carry();

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
  context.wire.processes().end_as(ended);
  return 0;  // not reached; the compiler does not see that through the port
}

}  // namespace thole::cli
