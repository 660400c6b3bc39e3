// The program: reads the command line, calls one command, and ends as documented (docs/commands.md, "Exit status").
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "base/fd.hpp"
#include "base/standard.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "base/want.hpp"
#include "cli/configuration.hpp"
#include "cli/context.hpp"
#include "cli/line/help.hpp"
#include "cli/line/parse.hpp"
#include "cli/line/table.hpp"
#include "cli/output.hpp"

namespace {

using namespace thole;
using cli::Context;
using cli::Invocation;
using cli::Stdout;
using cli::Verb;

// Without a verb: who has what.
const Verb& verb_of(const Invocation& invocation) { return invocation.verb ? *invocation.verb : *cli::find_verb("status"); }

bool is_for_eval(const Invocation& invocation) {
  return invocation.verb && invocation.verb->is_for_eval && invocation.verb->is_for_eval(invocation);
}

void report(const Error& error, const Invocation& invocation) {
  model::Json json = cli::to_json(error);
  const Stdout standard_output = verb_of(invocation).standard_output;
  const auto put_document = [&] {
    if (invocation.global.json && !is_for_eval(invocation))
      cli::put_bytes(STDOUT_FILENO, model::dump(json, standard_output == Stdout::lines ? -1 : 2) + "\n");
  };
  if (cli::tells_events(invocation)) {
    if (standard_output != Stdout::of_the_command) put_document();
    json["event"] = "error";
    cli::put_bytes(STDERR_FILENO, model::dump(json, -1) + "\n");
  } else {
    cli::tell(error.full(), error.object());
    put_document();
  }
}

// A mistyped line that was to be evaluated counts, too: `thole clam --shell`, `thole claim --shel`.
bool is_for_eval(const std::vector<std::string_view>& arguments) {
  const Invocation invocation = cli::as_far_as_read(arguments);
  if (is_for_eval(invocation)) return true;
  return (!invocation.verb || invocation.verb->is_for_eval) &&
         std::ranges::any_of(arguments, [](std::string_view word) { return word.starts_with("--she"); });
}

// Of `eval "$(thole claim --shell)"` the shell sees the status of what is printed alone. In this form every shell reads it.
void give_to_eval(int status) {
  if (!is_terminal(STDOUT_FILENO)) cli::put_bytes(STDOUT_FILENO, fmt::format("/bin/sh -c 'exit {}';\n", status));
}

// Before main() nobody catches what the making of a constant throws.
[[noreturn]] void no_memory_to_begin() {
  constexpr std::string_view said =
      "thole: cannot go on: Cannot allocate memory\n  memory is short: end something, or see the limit: ulimit -v\n";
  (void)!::write(STDERR_FILENO, said.data(), said.size());
  ::_exit(exit_status(ErrorCode::unavailable));
}

[[gnu::constructor(101)]] void before_all_constants() { std::set_new_handler(no_memory_to_begin); }

int call(const Invocation& invocation, const wire::Config& config) {
  wire::Wire wire(config.settings);
  std::signal(SIGXFSZ, SIG_IGN);   // noted by Wire before: a job finds it as it was; for us a full file is an error like others
  const auto no_color = config.settings.environment.find("NO_COLOR");
  const bool plain = invocation.global.no_color || (no_color != config.settings.environment.end() && !no_color->second.empty());
  const auto term = config.settings.environment.find("TERM");
  Context context{invocation, config, wire, cli::screen_of(STDOUT_FILENO, plain)};
  if (term != config.settings.environment.end() && term->second == "dumb")  // it knows no sequences, for colours or else
    context.screen.rows = 0, context.screen.colors = false;
  wire::when_names_are_a_crowd([&context](const std::string& text) { context.warn(text); });
  wire.when_kept = [&context](const std::string& by) { return context.warn(by), true; };
  try {
    for (const std::string& remark : invocation.remarks) context.note(remark);
    return verb_of(invocation).run(context);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::interrupted) {
      if (is_for_eval(invocation)) give_to_eval(exit_status(error.code()));   // a second time where no signal came: the same
      wire.die_if_interrupted();
    }
    report(error, invocation);
    return exit_status(error.code());
  }
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
    const Verb& verb = verb_of(invocation);
    if (!verb.goes_on_anyway)
      for (const auto& want : {too_few_descriptors(), too_little_stack()})
        if (want) throw *want;
    if (verb.run_alone) return verb.run_alone(invocation);
    const wire::Config config = cli::configuration(invocation);
    invocation = cli::parse(arguments, config.request);
    return call(invocation, config);
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
  std::set_new_handler(nullptr);
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
