// The program: reads the command line, calls one command, and ends as documented (docs/commands.md, "Exit status").
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <vector>

#include "base/fd.hpp"
#include "base/standard.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "base/want.hpp"
#include "cli/commands.hpp"
#include "cli/line/help.hpp"
#include "cli/line/parse.hpp"
#include "cli/output.hpp"
#include "wire/probe.hpp"
#include "wire/queue.hpp"

extern char** environ;

namespace {

using namespace thole;
using cli::Context;
using cli::Invocation;

struct Command {
  std::string_view verb;
  int (*call)(Context&);
};
constexpr Command commands[] = {{"status", cli::status}, {"why", cli::why},         {"run", cli::run},
                                {"bind", cli::bind},     {"claim", cli::claim},     {"release", cli::release},
                                {"extend", cli::extend}, {"topo", cli::topo},       {"plan", cli::plan},
                                {"doctor", cli::doctor}, {"capture", cli::capture}, {"init", cli::init},
                                {"map", cli::map},
                                {"submit", cli::submit}, {"jobs", cli::jobs},       {"logs", cli::logs},
                                {"wait", cli::wait},     {"cancel", cli::cancel},   {"retry", cli::retry},
                                {"hold", cli::hold},     {"resume", cli::resume},   {"pause", cli::pause},
                                {"continue", cli::proceed}, {"drain", cli::drain},  {"edit", cli::edit},
                                {"simulate", cli::simulate}, {"jupyter", cli::jupyter}, {"compat", cli::compat}};

// Without a verb: who has what.
std::string_view verb_of(const Invocation& invocation) { return invocation.verb ? invocation.verb->name : "status"; }

std::string path_of_this_program() {
  char path[4096];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  return length > 0 ? std::string(path, static_cast<std::size_t>(length)) : std::string();
}

wire::Config configure(const Invocation& invocation, const wire::Config& read) {
  wire::Config config = read;
  wire::Settings& settings = config.settings;
  if (invocation.global.machine) settings.machine = *invocation.global.machine;
  if (invocation.global.state_dir) settings.state_dir = *invocation.global.state_dir;
  if (invocation.queue.directory) settings.queue_dir = *invocation.queue.directory;
  return config;
}

void report(const Error& error, const Invocation& invocation) {
  model::Json json = cli::to_json(error);
  const std::string_view verb = verb_of(invocation);
  if (cli::tells_events(invocation)) {
    if (verb == "map") cli::put_bytes(STDOUT_FILENO, model::dump(json, -1) + "\n");
    if (verb == "claim" && !invocation.claim.shell) cli::put_bytes(STDOUT_FILENO, model::dump(json) + "\n");
    json["event"] = "error";
    cli::put_bytes(STDERR_FILENO, model::dump(json, -1) + "\n");
  } else {
    cli::tell(error.full(), error.object());
    if (invocation.global.json && !invocation.claim.shell) cli::put_bytes(STDOUT_FILENO, model::dump(json) + "\n");
  }
}

// A mistyped line that was to be evaluated counts, too: `thole clam --shell`, `thole claim --shel`.
bool is_for_eval(const std::vector<std::string_view>& arguments) {
  const Invocation invocation = cli::as_far_as_read(arguments);
  if (invocation.claim.shell) return true;
  return (!invocation.verb || invocation.verb->name == "claim") &&
         std::ranges::any_of(arguments, [](std::string_view word) { return word.starts_with("--she"); });
}

// Of `eval "$(thole claim --shell)"` the shell sees the status of what is printed alone. In this form every shell reads it.
void give_to_eval(int status) {
  if (!::isatty(STDOUT_FILENO)) cli::put_bytes(STDOUT_FILENO, fmt::format("/bin/sh -c 'exit {}';\n", status));
}

int call(const Invocation& invocation, const wire::Config& config) {
  wire::Wire wire(config.settings);
  std::signal(SIGXFSZ, SIG_IGN);   // noted by Wire before: a job finds it as it was; for us a full file is an error like others
  const auto no_color = config.settings.environment.find("NO_COLOR");
  const bool plain = invocation.global.no_color || (no_color != config.settings.environment.end() && !no_color->second.empty());
  const auto term = config.settings.environment.find("TERM");
  Context context{invocation, config, wire, cli::screen_of(STDOUT_FILENO, plain)};
  if (term != config.settings.environment.end() && term->second == "dumb")  // it knows no sequences, for colours or else
    context.screen.rows = 0, context.screen.colors = false;
  wire.when_kept = [&context](const std::string& by) { context.warn(by); };
  try {
    for (const std::string& remark : invocation.remarks) context.note(remark);
    for (const Command& command : commands)
      if (command.verb == verb_of(invocation)) return command.call(context);
    throw Error(ErrorCode::internal, "a command of the table has no code").about(std::string(verb_of(invocation)));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) {
      if (invocation.claim.shell) give_to_eval(exit_status(error.code()));   // a second time where no signal came: the same
      wire.die_if_interrupted();
    }
    report(error, invocation);
    return exit_status(error.code());
  }
}

int run_runner(const Invocation& invocation, const wire::Config& config) {
  wire::Wire wire(config.settings);
  std::signal(SIGXFSZ, SIG_IGN);
  wire.queue().run(!invocation.words.empty());   // "relieve"
  return 0;
}

int main_of(const std::vector<std::string_view>& arguments) {
  std::optional<Invocation> read;
  try {
    // Read once for what needs no configuration, and again on top of the configured defaults.
    Invocation& invocation = read.emplace(cli::parse(arguments));
    if (invocation.global.version) {
      cli::give_text(fmt::format("thole {}\n", version));
      return 0;
    }
    if (invocation.global.help) {
      const std::size_t columns = std::min(cli::screen_of(STDOUT_FILENO, true).columns, cli::page_width);
      const std::string help = invocation.verb ? cli::help_of(*invocation.verb, columns) : cli::general_help(columns);
      cli::give_text(help);
      return 0;
    }
    const std::string_view verb = verb_of(invocation);
    if (verb != "doctor")   // tells it among other things
      for (const auto& want : {too_few_descriptors(), too_little_stack()})
        if (want) throw *want;
    if (verb == "__probe") return wire::run_probe(invocation.words);
    if (verb == "__runner") wire::become_runner_process();
    if (verb == "__placeholder") return wire::run_placeholder(invocation.words);
    if (verb == "completion") return cli::completion(invocation);
    const plan::Environment environment = wire::process_environment(environ);
    const wire::Config config = wire::read_config(environment, wire::config_files(environment), path_of_this_program(),
                                                  verb == "doctor" ? wire::OnMistake::leave_out : wire::OnMistake::refuse);
    if (verb == "__runner") return run_runner(invocation, configure(invocation, config));
    if (verb == "__complete") return cli::complete(invocation, configure(invocation, config));
    invocation = cli::parse(arguments, config.request);
    return call(invocation, configure(invocation, config));
  } catch (const Error& error) {
    report(error, read ? *read : cli::as_far_as_read(arguments));
    return exit_status(error.code());
  } catch (const std::bad_alloc&) {   // what was made is free again
    const Error error = out_of_memory();
    report(error, read ? *read : cli::as_far_as_read(arguments));
    return exit_status(error.code());
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  const std::vector<std::string_view> arguments(argv + std::min(argc, 1), argv + argc);
  int status = exit_status(ErrorCode::internal);
  try {
    status = main_of(arguments);
  } catch (const std::bad_alloc&) {  // nor can it be said
    status = exit_status(ErrorCode::unavailable);
  } catch (const std::exception& bug) {  // a mistake of ours
    cli::tell(fmt::format("internal error: {}", bug.what()));
  }
  if (status != 0 && is_for_eval(arguments)) give_to_eval(status);
  return status;
}
