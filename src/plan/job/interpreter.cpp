#include "plan/job/interpreter.hpp"

#include <algorithm>
#include <iterator>

#include "base/option_words.hpp"
#include "base/starters.hpp"
#include "base/text.hpp"

namespace thole::plan {

namespace {

// "python3.11" is python.
std::string_view without_version(std::string_view name) {
  const std::size_t end = name.find_last_not_of("0123456789.");
  return end == std::string_view::npos ? name : name.substr(0, end + 1);
}

constexpr OptionRules interpreters[] = {
    {.name = "sh", .apart = "oO", .last = "cs", .of_shell = true},
    {.name = "bash", .apart = "oO", .longs = "rcfile init-file", .last = "cs", .of_shell = true},
    {.name = "dash", .apart = "oO", .last = "cs", .of_shell = true},
    {.name = "zsh", .valued = "o", .longs = "emulate", .last = "cs", .of_shell = true},
    {.name = "ksh", .valued = "oR", .last = "cs", .of_shell = true},
    {.name = "fish",
     .valued = "CpdfDo",
     .longs = "init-command:C profile:p profile-startup debug:d features:f debug-stack-frames:D debug-output:o command:c",
     .last = "c"},
    {.name = "python", .valued = "WX", .longs = "check-hash-based-pycs", .last = "cm"},
    {.name = "perl", .valued = "I", .attached = "MmxiFdDC", .last = "eE"},
    {.name = "julia",
     .valued = "HLJCpt",
     .attached = "Og",
     .longs = "home:H load:L sysimage:J cpu-target:C procs:p threads:t machine-file gcthreads heap-size-hint banner color "
              "startup-file history-file compile compiled-modules pkgimages check-bounds min-optlevel inline math-mode "
              "depwarn warn-overwrite warn-scope handle-signals trace-compile eval:e print:E",
     .last = "eEm"},
    {.name = "Rscript", .last = "e"}};

const OptionRules* rules_of(std::string_view program) {
  const std::string name = last_part(program);
  for (const OptionRules& rules : interpreters)
    if (rules.name == name || (!rules.of_shell && rules.name == without_version(name))) return &rules;
  return nullptr;
}

}  // namespace

std::optional<std::string> script_in(std::span<const std::string> command) {
  if (command.empty()) return std::nullopt;
  if (const OptionRules* rules = rules_of(command.front())) {
    const OptionWords options = option_words(command, 1, *rules);
    const bool named = !options.at_last && options.behind < command.size() && command[options.behind] != "-";
    return named ? std::optional(command[options.behind]) : std::nullopt;
  }
  const auto started = started_by(command);
  if (!started) return std::nullopt;
  const std::string& program = started->command.front();
  const bool is_last = !rules_of(program) && !started_by(started->command);
  std::optional<std::string> script = !is_last                              ? script_in(started->command)
                                      : program.find('/') != program.npos ? std::optional(program)
                                                                          : std::nullopt;
  if (script && !started->directory.empty() && !script->starts_with('/')) *script = started->directory + "/" + *script;
  return script;
}

bool is_interpreter(std::string_view program) { return rules_of(program) != nullptr; }

bool awaits_script(std::span<const std::string> command) {
  const OptionRules* rules = command.empty() ? nullptr : rules_of(command.front());
  if (!rules) return false;
  if (command.size() == 1) return rules->name != "Rscript";   // that shows its help
  const std::string_view first = command[1];
  if (first == "-") return command.size() == 2 || !rules->of_shell;   // which only ends the options of a shell
  return first == "/dev/stdin" || (first == "-s" && rules->of_shell);
}

}  // namespace thole::plan
