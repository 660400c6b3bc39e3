#include "cli/line/help.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "cli/show/terminal.hpp"

namespace thole::cli {

namespace {

constexpr std::size_t help_column = 26;

std::string rows(std::span<const Option> options, std::size_t columns) {
  std::string text;
  for (const Option& option : options) {
    std::string left = fmt::format("  {}{}", option.letter ? "" : "    ", spelling(option));
    if (left.size() + 2 > help_column)
      left += "\n" + std::string(help_column, ' ');
    else
      left.resize(help_column, ' ');
    text += left + wrap(option.help, columns, help_column, help_column) + "\n";
  }
  return text;
}

std::string examples(const Verb& verb, std::size_t columns) {
  std::string text;
  for (const Example& example : verb.examples)
    text += fmt::format("  {}\n      {}\n", example.line, wrap(example.says, columns, 6, 6));
  return text;
}

}  // namespace

std::vector<std::string_view> groups() {
  std::vector<std::string_view> all;
  for (const Verb& verb : verbs())
    if (!verb.group.empty() && std::find(all.begin(), all.end(), verb.group) == all.end()) all.push_back(verb.group);
  return all;
}

std::string synopsis(const Verb& verb) {
  std::string text = fmt::format("thole {} [OPTION...]", verb.name);
  if (!verb.operands.empty()) text += fmt::format(" {}", verb.operands);
  return text;
}

std::string spelling(const Option& option) {
  std::string text = option.letter ? fmt::format("-{}, --{}", option.letter, option.name) : fmt::format("--{}", option.name);
  if (option.value.empty()) return text;
  return text + (option.optional_value ? fmt::format("[={}]", option.value.substr(1, option.value.size() - 2))
                                       : fmt::format(" {}", option.value));
}

std::string general_help(std::size_t columns) {
  constexpr std::size_t says_column = 31, summary_column = 14;
  std::string text = "thole: see, claim and share the GPUs of a machine.\n\n";
  for (const auto& [line, says] : {std::pair{"thole", "who has what (the same as: thole status)"},
                                   {"thole run python train.py", "claim a GPU, wait if needed, run"}})
    text += fmt::format("  {:<29}{}\n", line, wrap(says, columns, says_column, says_column));
  for (std::string_view group : groups()) {
    text += fmt::format("\n{}\n", group);
    for (const Verb& verb : verbs())
      if (verb.group == group)
        text += fmt::format("  {:<12}{}\n", verb.name, wrap(verb.summary, columns, summary_column, summary_column));
  }
  text += "\noptions, before or after the command\n" + rows(global_options(), columns);
  text += "\n" + wrap("Options and examples of a command: thole COMMAND --help, or man thole-COMMAND", columns, 2, 0) + "\n";
  return text;
}

std::string help_of(const Verb& verb, std::size_t columns) {
  std::string text = fmt::format("{}\n\nusage: {}\n", wrap(verb.summary, columns, 2, 0), wrap(synopsis(verb), columns, 4, 7));
  if (!verb.examples.empty()) text += "\nexamples\n" + examples(verb, columns);
  if (!verb.options.empty()) text += "\noptions\n" + rows(verb.options, columns);
  if (!verb.request.empty()) text += "\nthe request: which GPUs, and how long to wait\n" + rows(verb.request, columns);
  if (!verb.binding.empty()) text += "\nbinding: the CPUs, memory and NICs it uses\n" + rows(verb.binding, columns);
  std::string globals;
  for (const Option& option : global_options()) globals += (globals.empty() ? "" : ", ") + spelling(option);
  return text + "\noptions of every command (see: thole --help)\n  " + wrap(globals, columns, 2, 2) + "\n";
}

}  // namespace thole::cli
