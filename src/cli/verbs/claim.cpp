// claim, release, extend: a claim without a command.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/claim/holding.hpp"
#include "base/error.hpp"
#include "base/shell_kind.hpp"
#include "base/text.hpp"
#include "cli/claim_search.hpp"
#include "cli/commands.hpp"
#include "cli/line/queue_words.hpp"
#include "cli/line/words.hpp"
#include "cli/meanwhile.hpp"
#include "cli/show/progress.hpp"

namespace thole::cli {

namespace {

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
  if (invocation.claim.shell) return fmt::format("thole claim for shell {}", *process);
  if (process) return fmt::format("thole claim for process {}", *process);
  return "thole claim";
}

// The shell that was told to claim still has the variables.
void remind_to_unset(const Context& context, const std::string& id) {
  const auto& environment = context.wire.settings().environment;
  const auto here = environment.find("THOLE_CLAIM");
  if (here == environment.end() || here->second != id) return;
  const std::size_t slash = id.rfind('/');   // the claim around it goes on: what is claimed here next is to come from that
  const std::string around = slash == std::string::npos ? "" : id.substr(0, slash);
  const ShellKind shell = wire::shell_above();
  std::vector<std::string> names{"THOLE_GPUS", "CUDA_VISIBLE_DEVICES"};
  if (around.empty()) names.insert(names.begin(), "THOLE_CLAIM");
  context.note("this shell still has the variables of the claim: " +
               unset_in(shell, names) +
               (around.empty() ? "" : "; " + set_in(shell, "THOLE_CLAIM", around)));
}

constexpr Millis before_a_word{2'000};   // of a release that lasts

void say_what_it_waits_for(Context& context, const app::KeptClaim& claim) {
  std::optional<port::Ending> ending;
  try {
    ending = context.wire.control().ending(claim.address());
  } catch (const Error&) {   // its keeper has just let go, or is of an older thole
  }
  if (!ending) return context.note(fmt::format("waiting for the keeper of claim {} to let go", claim.id));
  const std::string name = ending->name.empty() ? "" : " (" + printable(ending->name, 32) + ")";
  const auto left = ending->killed
                        ? std::chrono::round<Seconds>(*ending->killed - std::chrono::steady_clock::now())
                        : Seconds{0};
  context.note(fmt::format("waiting for process {}{} to end{}", ending->pid, name,
                           left > Seconds{0} ? "; it is killed in " + format_duration(left) : ""));
}

}  // namespace

int claim(Context& context) {
  const Invocation& invocation = context.invocation;
  if (invocation.run.dry_run) return show_preview(context);
  app::HoldRequest wanted;
  wanted.request = invocation.request;
  wanted.ids = context.ids();
  wanted.process = invocation.claim.shell ? std::optional<pid_t>(wire::calling_shell()) : invocation.claim.pid;
  wanted.for_shell = invocation.claim.shell;
  const ShellKind shell = invocation.claim.shell ? wire::kind_of_shell(*wanted.process) : ShellKind::posix;
  if (invocation.claim.shell && ::isatty(STDOUT_FILENO))
    context.note(std::string("these lines are for the shell: ") +
                 (shell == ShellKind::c ? "eval \"`thole claim --shell`\"" : "eval \"$(thole claim --shell)\""));
  wanted.command = recorded_as(invocation, wanted.process);
  wanted.carry = context.carry();
  if (invocation.claim.placeholder) wanted.placeholder = &context.wire.placeholder();

  if (invocation.claim.shell) context.wire.interruption();   // noticed, not died of: `eval` has yet to be told (main.cpp)
  Progress progress(context);
  const model::Json claim = app::hold(context.wire.run_ports(), wanted, progress.events(), {}, [&](const model::Json& made) {
    context.wire.die_if_interrupted();           // a reader that has stopped keeps nobody from ending us
    if (invocation.claim.shell && !context.screen.terminal())
      context.copy(exports(made, shell));               // for a shell, whatever bytes a path has
    else if (invocation.claim.shell)
      context.print(exports(made, shell));
    else if (invocation.global.json)
      context.print_json(made);
    else
      context.print(made.at("id").get<std::string>() + "\n");
  });
  if (!invocation.global.json) context.note(claim_in_one_line(claim, context.wire.clock().wall()));
  return 0;
}

int release(Context& context) {
  std::vector<std::string> words = context.invocation.words;
  if (words.empty()) words.emplace_back();  // the claim we are in
  app::ClaimSearch to_release = claim_search(context);
  to_release.to_release = true;
  std::vector<app::KeptClaim> claims;       // all must exist before one is released
  for (const std::string& word : words) {
    app::KeptClaim found = app::find_claim(to_release, word);
    const bool is_named_twice = std::ranges::find(claims, found.id, &app::KeptClaim::id) != claims.end();   // by two GPUs of it
    if (!is_named_twice) claims.push_back(std::move(found));
  }
  model::Json released = model::Json::array();
  for (const app::KeptClaim& claim : claims) {
    {
      const Meanwhile silence(before_a_word, [&] { say_what_it_waits_for(context, claim); });
      app::release(to_release, context.wire.control(), claim);
    }
    released.push_back(claim.id);
    if (context.invocation.global.json) continue;
    context.note(fmt::format("released {}", claim.id));
    remind_to_unset(context, claim.id);
  }
  if (context.invocation.global.json) context.print_json(model::Json{{"schema", "thole/released/1"}, {"claims", released}});
  return 0;
}

// How long until this time of the day, as one says it of an appointment; three numbers are Slurm's hours, minutes and seconds.
std::optional<Seconds> until_clock(const std::string& text, WallTime now) {
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos || colon != text.rfind(':') || colon + 3 != text.size()) return std::nullopt;
  try {
    return std::chrono::ceil<std::chrono::minutes>(begin_of({"extend", text}, now) - now);
  } catch (const Error&) {   // no such time
    return std::nullopt;
  }
}

int extend(Context& context) {
  const std::vector<std::string>& words = context.invocation.words;
  if (const auto from_now = until_clock(words.back(), context.wire.clock().wall()); from_now && *from_now > Seconds{0})
    throw Error(ErrorCode::usage,
                fmt::format("extend: expected a time from now, got {}, one of the clock", in_quotes(words.back())))
        .hint(fmt::format("thole extend {}{}", words.size() == 2 ? printable(words.front(), 40) + " " : "",
                          format_duration(*from_now)));
  if (words.size() == 2 && !parse_duration(words.back()) && parse_duration(words.front()))
    throw Error(ErrorCode::usage, "extend: the claim comes first, then the time")
        .hint(fmt::format("thole extend {} {}", printable(words.back(), 40), words.front()));
  // With a unit, as --time: "extend 0 8" for hours would end the command in 8 seconds.
  const std::string before = words.size() == 2 ? "extend " + printable(words.front(), 40) : "extend";
  const Seconds by = run_time_of({before, words.back()});
  const app::KeptClaim claim =
      app::find_claim(claim_search(context), words.size() == 2 ? words.front() : std::string());
  const WallTime until = app::extend(context.wire.control(), context.wire.clock(), claim, by);
  if (context.invocation.global.json)
    context.print_json(model::Json{{"schema", "thole/extended/1"}, {"id", claim.id}, {"until", format_iso(until)}});
  else
    context.note(fmt::format("claim {} ends {}", claim.id, format_local(until, context.wire.clock().wall())));
  return 0;
}

}  // namespace thole::cli
