// claim: a claim without a command.
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "app/claim/holding.hpp"
#include "base/error.hpp"
#include "base/shell_kind.hpp"
#include "base/stream.hpp"
#include "base/text.hpp"
#include "cli/context.hpp"
#include "cli/line/request.hpp"
#include "cli/line/table.hpp"
#include "cli/line/words.hpp"
#include "cli/show/progress.hpp"

namespace thole::cli {

namespace {

struct ClaimOptions {
  bool shell = false;
  std::optional<pid_t> pid;
  bool placeholder = false;
};

constexpr Option claim_options[] = {
  {0, "shell", "", "tie the claim to the calling shell and print the exports: eval \"$(thole claim --shell)\"",
   [](ClaimOptions& o, const Word&) { o.shell = true; }},
  {0, "pid", "PID", "hold the claim until the process PID ends",
   [](ClaimOptions& o, const Word& w) { o.pid = pid_of(w); }},
  {0, "placeholder", "", "keep a CUDA context on each GPU (0.5 GiB), for safe-gpu and others that look at processes and not "
   "at claims",
   [](ClaimOptions& o, const Word&) { o.placeholder = true; }},
  dry_run_row, ids_row,
};

void check_claim(const Invocation& line) {
  const ClaimOptions& options = line.own.as<ClaimOptions>();
  if (options.placeholder && line.request.share)
    throw Error(ErrorCode::usage, "--placeholder and --share exclude each other")
        .hint("a placeholder's memory is in no budget");
  if (options.shell && options.pid) throw Error(ErrorCode::usage, "--shell and --pid exclude each other");
}

// Lines for `eval`.
std::string exports(const model::Json& claim, ShellKind shell) {
  std::string text;
  for (const auto& name : claim.at("unset")) text += unset_in(shell, {name.get<std::string>()}) + ";\n";
  for (const auto& [name, value] : claim.at("set").items())
    text += set_in(shell, name, shell_quote(value.get<std::string>())) + ";\n";
  return text;
}

std::string claim_in_one_line(const model::Json& claim, WallTime now) {
  std::vector<std::string> labels;
  for (const auto& gpu : claim.at("gpus")) labels.push_back(gpu.at("gpu").get<std::string>());
  std::string text =
      fmt::format("claim {}: {}", claim.at("id").get<std::string>(), labels.empty() ? "no GPU" : "GPU " + join(labels, ","));
  if (!claim.at("until").is_null())
    text += " until " + format_local(parse_iso(claim.at("until").get<std::string>()).value_or(now), now);
  return text;
}

std::string recorded_as(const Invocation& invocation, std::optional<pid_t> process) {
  if (invocation.own.as<ClaimOptions>().shell) return fmt::format("thole claim for shell {}", *process);
  if (process) return fmt::format("thole claim for process {}", *process);
  return "thole claim";
}

int claim(Context& context) {
  const Invocation& invocation = context.invocation;
  const ClaimOptions& options = invocation.own.as<ClaimOptions>();
  if (invocation.dry_run) return show_preview(context);
  app::HoldRequest wanted;
  wanted.request = invocation.request;
  wanted.ids = context.ids();
  wanted.process = options.shell ? std::optional<pid_t>(wire::calling_shell()) : options.pid;
  wanted.for_shell = options.shell;
  const ShellKind shell = options.shell ? wire::kind_of_shell(*wanted.process) : ShellKind::posix;
  if (options.shell && is_terminal(STDOUT_FILENO))
    context.note(std::string("these lines are for the shell: ") +
                 (shell == ShellKind::c ? "eval \"`thole claim --shell`\"" : "eval \"$(thole claim --shell)\""));
  wanted.command = recorded_as(invocation, wanted.process);
  wanted.carry = context.carry();
  if (options.placeholder) wanted.placeholder = &context.wire.placeholder();

  if (options.shell) context.wire.interruption();   // noticed, not died of: `eval` has yet to be told (main.cpp)
  Progress progress(context);
  const model::Json claim = app::hold(context.wire.run_ports(), wanted, progress.events(), {}, [&](const model::Json& made) {
    context.wire.die_if_interrupted();           // a reader that has stopped keeps nobody from ending us
    if (options.shell && !context.screen.terminal())
      context.copy(exports(made, shell));               // for a shell, whatever bytes a path has
    else if (options.shell)
      context.print(exports(made, shell));
    else if (invocation.global.json)
      context.print_json(made);
    else
      context.print(made.at("id").get<std::string>() + "\n");
  });
  if (!invocation.global.json) context.note(claim_in_one_line(claim, context.wire.clock().wall()));
  return 0;
}

constexpr Example claim_examples[] = {
  {"eval \"$(thole claim --shell)\"", "a GPU for this shell and what is started from it"},
  {"thole claim -g 2 --time 4h", "two GPUs for four hours; prints the id of the claim"},
  {"thole claim --on 3 --pid 4711", "GPU 3 for a process that runs already"},
};

}  // namespace

extern constexpr Verb claim_verb = {
    .name = "claim",
    .group = "run",
    .summary = "claim GPUs without a command",
    .options = claim_options,
    .request = request_rows,
    .examples = claim_examples,
    .instead_of_words = "a command is run by: thole run",
    .check = check_claim,
    .tells_events = [](const Invocation& line) { return !line.dry_run; },
    .is_for_eval = [](const Invocation& line) { return line.own.as<ClaimOptions>().shell; },
    .run = claim,
};

}  // namespace thole::cli
