// Writes man pages, completion scripts and docs/commands.md from the program's rows of verbs and options and from prose/*.md.
// A prose file's text up to its first "## Heading" is the description; what follows comes after the examples.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/text.hpp"
#include "base/version.hpp"
#include "cli/line/complete.hpp"
#include "cli/line/help.hpp"
#include "roff.hpp"
#include "wire/config.hpp"

namespace thole::pages {

namespace {

using cli::Example;
using cli::Option;
using cli::Verb;

struct Prose {
  std::string description, sections;
};

Prose prose_of(const std::string& directory, std::string_view name) {
  const std::string path = fmt::format("{}/{}.md", directory, name);
  const auto text = read_file(path);
  if (!text) throw Error(ErrorCode::internal, "no prose").about(path);
  const std::size_t heading = text->find("## ");
  return {text->substr(0, heading), heading == std::string::npos ? "" : text->substr(heading)};
}

std::string title(std::string_view page) {
  std::string name(page);
  for (char& c : name)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return fmt::format(".TH {} 1 \"\" \"thole {}\" \"User Commands\"\n", name, version);
}

std::string options(std::string_view heading, std::span<const Option> rows) {
  if (rows.empty()) return "";
  std::string text = fmt::format(".SH {}\n", heading);
  for (const Option& row : rows) text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", escape(cli::spelling(row)), bold_words(row.help));
  return text;
}

std::string examples(const Verb& verb) {
  std::string text = ".SH EXAMPLES\n";
  for (const Example& example : verb.examples)
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", escape(example.line), bold_words(example.says));
  return text;
}

std::string see_also(std::string_view page) {
  std::string text = ".SH SEE ALSO\n";
  if (page != "thole") text += "\\fBthole\\fR(1)";
  for (const Verb& verb : cli::verbs())
    if (!verb.group.empty() && page != verb.name)
      text += fmt::format("{}\\fBthole\\-{}\\fR(1)", text.ends_with('\n') ? "" : ",\n", verb.name);
  return text + "\n";
}

std::string page_of(const Verb& verb, const std::string& directory) {
  const Prose prose = prose_of(directory, verb.name);
  std::string text = title(fmt::format("thole-{}", verb.name));
  text += fmt::format(".SH NAME\nthole\\-{} \\- {}\n.SH SYNOPSIS\n\\fB{}\\fR\n", verb.name, bold_words(verb.summary),
                      escape(cli::synopsis(verb)));
  text += ".SH DESCRIPTION\n" + roff(prose.description);
  text += options("OPTIONS", verb.options) + options("THE REQUEST", verb.request) + options("BINDING", verb.binding);
  text += ".PP\nOptions of every command are in \\fBthole\\fR(1).\n";
  return text + examples(verb) + roff(prose.sections) + see_also(verb.name);
}

std::string configuration() {
  std::string text =
      ".SH CONFIGURATION\n\\fI/etc/thole/config.toml\\fR, then \\fI$XDG_CONFIG_HOME/thole/config.toml\\fR, then variables, "
      "then\n"
      "options; the later wins. An unknown key is an error. In the files a dotted key is a table and its key.\n";
  for (const wire::ConfigKey& key : wire::config_keys()) {
    const std::string name = key.name.empty() ? std::string() : fmt::format("{}, ", key.name);
    text += fmt::format(".TP\n\\fB{}{}\\fR={}\n{}\n", escape(name), escape(key.variable), escape(key.value),
                        bold_words(key.help));
  }
  return text;
}

std::string main_page(const std::string& directory) {
  const Prose prose = prose_of(directory, "thole");
  std::string text = title("thole") +
                     ".SH NAME\nthole \\- see, claim and share the GPUs of a machine\n.SH SYNOPSIS\n"
                     "\\fBthole\\fR [OPTION...] [COMMAND [OPTION...] [WORD...]]\n.SH DESCRIPTION\n" +
                     roff(prose.description);
  text += ".SH COMMANDS\n";
  for (std::string_view group : cli::groups()) {
    text += fmt::format(".SS {}\n", group);
    for (const Verb& verb : cli::verbs())
      if (verb.group == group) text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", verb.name, bold_words(verb.summary));
  }
  return text + options("OPTIONS", cli::global_options()) + roff(prose.sections) + configuration() + see_also("thole");
}

std::string markdown_options(std::span<const Option> rows) {
  std::string text = "| option | meaning |\n|---|---|\n";
  for (const Option& row : rows) {
    std::string help(row.help);
    text += fmt::format("| `{}` | {} |\n", cli::spelling(row), help);
  }
  return text;
}

// A pipe would end a cell.
std::string in_cells(std::string text) {
  std::string result;
  for (std::string_view line : split_lines(text)) {
    const bool row = line.starts_with("| `");
    const std::size_t end = row ? line.find("` | ") : std::string_view::npos;
    for (std::size_t i = 0; i < line.size(); ++i)
      result += row && i > 2 && i < end && line[i] == '|' ? "\\|" : std::string(1, line[i]);
    result += "\n";
  }
  return result;
}

std::string commands_page(const std::string& directory) {
  const Prose main = prose_of(directory, "thole");
  std::string text =
      "# Commands\n\nMade by `ninja thole_commands_page` from the program's own tables and man/prose; the man pages say the "
      "same.\n\n";
  text += main.description + "\n" + in_cells(markdown_options(cli::global_options())) + "\n" + main.sections;
  for (const Verb& verb : cli::verbs()) {
    if (verb.group.empty()) continue;
    const Prose prose = prose_of(directory, verb.name);
    text += fmt::format("\n## thole {}\n\n`{}`: {}.\n\n{}", verb.name, cli::synopsis(verb), verb.summary, prose.description);
    if (!verb.options.empty()) text += "\n" + in_cells(markdown_options(verb.options));
    const bool waits_anyway = std::ranges::find(verb.request, "wait", &Option::name) == verb.request.end();
    if (!verb.request.empty())
      text += fmt::format("\nAnd the words of [a request](#a-request){}.\n",
                          waits_anyway ? ", but for `--wait` and `--no-wait`: a job waits until its turn comes" : "");
    if (!verb.binding.empty()) text += "\nAnd the words about [binding](#binding).\n";
    text += "\n";
    for (const Example& example : verb.examples) text += fmt::format("    {:<56} # {}\n", example.line, example.says);
    std::string sections = prose.sections;
    for (std::size_t at = 0; (at = sections.find("## ", at)) != std::string::npos; at += 4) sections.insert(at, "#");
    if (!sections.empty()) text += "\n" + sections;
  }
  text += "\n## A request\n\n" + in_cells(markdown_options(cli::find_verb("run")->request));
  text += "\n## Binding\n\nWhat they mean: [binding](binding.md).\n\n";
  text += in_cells(markdown_options(cli::find_verb("run")->binding));
  return text;
}

int write_man(const std::string& prose, const std::string& out) {
  ::mkdir(out.c_str(), 0755);
  for (const Verb& verb : cli::verbs())
    if (!verb.group.empty()) write_file(fmt::format("{}/thole-{}.1", out, verb.name), page_of(verb, prose));
  write_file(out + "/thole.1", main_page(prose));
  return 0;
}

int write_completion(const std::string& out) {
  ::mkdir(out.c_str(), 0755);
  write_file(out + "/_thole", cli::completion_script("zsh"));
  write_file(out + "/thole.fish", cli::completion_script("fish"));
  write_file(out + "/thole", cli::completion_script("bash"));
  return 0;
}

int generate(const std::vector<std::string>& words) {
  if (words.size() == 3 && words[0] == "man") return write_man(words[1], words[2]);
  if (words.size() == 2 && words[0] == "completion") return write_completion(words[1]);
  if (words.size() == 3 && words[0] == "commands") return write_file(words[2], commands_page(words[1])), 0;
  throw Error(ErrorCode::usage, "thole_pages man PROSE OUT | completion OUT | commands PROSE FILE");
}

}  // namespace

}  // namespace thole::pages

int main(int argc, char** argv) {
  try {
    return thole::pages::generate({argv + 1, argv + argc});
  } catch (const thole::Error& error) {
    std::fprintf(stderr, "thole_pages: %s\n", error.full().c_str());
    return thole::exit_status(error.code());
  }
}
