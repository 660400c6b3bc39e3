#include "plan/interpreter.hpp"

#include <algorithm>
#include <iterator>

namespace thole::plan {

namespace {

constexpr std::string_view shells[] = {"sh", "bash", "dash", "zsh", "ksh", "fish"};

std::string_view last_name(std::string_view program) { return program.substr(program.find_last_of('/') + 1); }

bool is_shell(std::string_view name) { return std::ranges::find(shells, name) != std::end(shells); }

// "python3.11" is python.
std::string_view without_version(std::string_view name) {
  const std::size_t end = name.find_last_not_of("0123456789.");
  return end == std::string_view::npos ? name : name.substr(0, end + 1);
}

// How a program takes its options. `valued`: letters behind which a value stands; `code`: behind which its code does.
struct Options {
  std::string_view name, valued, code;
  unsigned operands = 0;                         // that stand before what it starts
};
constexpr Options starters[] = {{"env", "uC", "S"},    {"nice", "n", ""},     {"nohup", "", ""},
                                {"setsid", "", ""},    {"stdbuf", "ioe", ""}, {"timeout", "ks", "", 1}};
constexpr Options of_shells{"", "oO", "cs"};
constexpr Options of_languages[] = {{"python", "WX", "cm"}, {"perl", "IMmx", "eE"}, {"julia", "Jptm", "eE"},
                                    {"Rscript", "", "e"}};

enum class Word { option, with_value, code };

Word kind_of(std::string_view word, const Options& options) {
  if (word.starts_with("--")) return Word::option;
  for (std::size_t i = 1; i < word.size(); ++i) {
    if (options.code.find(word[i]) != std::string_view::npos) return Word::code;
    if (options.valued.find(word[i]) != std::string_view::npos)
      return i + 1 == word.size() ? Word::with_value : Word::option;
  }
  return Word::option;
}

// The first word behind the options from `at` on; nothing where code is given.
std::optional<std::size_t> behind_options(std::span<const std::string> command, std::size_t at, const Options& options) {
  for (; at < command.size() && command[at].starts_with('-') && command[at] != "-"; ++at) {
    if (command[at] == "--") return at + 1;
    const Word kind = kind_of(command[at], options);
    if (kind == Word::code) return std::nullopt;
    if (kind == Word::with_value) ++at;
  }
  return at;
}

const Options* options_of(std::string_view name) {
  if (is_shell(name)) return &of_shells;
  const auto found = std::ranges::find(of_languages, without_version(name), &Options::name);
  return found == std::end(of_languages) ? nullptr : found;
}

}  // namespace

std::optional<std::size_t> script_word(std::span<const std::string> command) {
  for (std::size_t at = 0; at < command.size();) {
    const std::string_view name = last_name(command[at]);
    const Options* interpreter = options_of(name);
    const auto starter = std::ranges::find(starters, name, &Options::name);
    if (!interpreter && starter == std::end(starters))
      return at > 0 && command[at].find('/') != std::string::npos ? std::optional(at) : std::nullopt;
    const auto next = behind_options(command, at + 1, interpreter ? *interpreter : *starter);
    if (!next || *next >= command.size()) return std::nullopt;
    if (interpreter) return command[*next] == "-" ? std::nullopt : next;
    at = *next + starter->operands;
    while (at < command.size() && command[at].find('=') != std::string::npos) ++at;   // env NAME=VALUE
  }
  return std::nullopt;
}

bool is_interpreter(std::string_view program) { return options_of(last_name(program)) != nullptr; }

bool awaits_script(std::span<const std::string> command) {
  if (command.empty() || !is_interpreter(command.front())) return false;
  const std::string_view name = last_name(command.front());
  if (command.size() == 1) return name != "Rscript";   // that shows its help
  const std::string_view first = command[1];
  return first == "-" || first == "/dev/stdin" || (first == "-s" && is_shell(name));
}

}  // namespace thole::plan
