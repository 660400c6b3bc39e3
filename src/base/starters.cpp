#include "base/starters.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/option_words.hpp"
#include "base/text.hpp"

namespace thole {
namespace {

struct Starter {
  OptionRules rules;
  unsigned operands = 0;                         // that stand before what it starts
};
constexpr Starter starters[] = {
    {{.name = "env", .valued = "uCSa", .longs = "unset:u chdir:C split-string:S argv0:a ignore-environment:i", .last = "S"}},
    {{.name = "nice", .valued = "n", .longs = "adjustment:n"}},
    {{.name = "nohup"}},
    {{.name = "setsid"}},
    {{.name = "stdbuf", .valued = "ioe", .longs = "input:i output:o error:e"}},
    {{.name = "timeout", .valued = "ks", .longs = "kill-after:k signal:s"}, 1}};

constexpr std::string_view blanks = " \t\n\v\f\r";

// What env -S makes of a backslash and `letter`; 0 of what it refuses or takes for no character.
char escaped(char letter) {
  constexpr std::string_view letters = "fnrtv\"#$'\\", meant = "\f\n\r\t\v\"#$'\\";
  const std::size_t at = letters.find(letter);
  return at == letters.npos ? '\0' : meant[at];
}

// How it works: one pass over the text as env's own (coreutils, build_argv).
class EnvWords {
 public:
  bool read(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      const bool more = i + 1 < text.size();
      if (c == '$' && quote_ != '\'') return false;
      if (c == quote_) quote_ = '\0';
      else if ((c == '\'' || c == '"') && !quote_) begin(c);
      else if (!quote_ && blanks.find(c) != blanks.npos) word_ = false;
      else if (c == '#' && !word_) return true;
      else if (c != '\\') put(c);
      else if (quote_ == '\'' && !(more && (text[i + 1] == '\\' || text[i + 1] == '\''))) put(c);
      else if (!more) return false;
      else if (text[++i] == 'c' && !quote_) return true;
      else if (text[i] == '_' && !quote_) word_ = false;
      else if (const char meant = text[i] == '_' ? ' ' : escaped(text[i])) put(meant);
      else return false;
    }
    return !quote_;
  }

  std::vector<std::string> take() { return std::move(words_); }

 private:
  void begin(char quote) {
    quote_ = quote;
    if (!std::exchange(word_, true)) words_.emplace_back();
  }

  void put(char c) {
    if (!std::exchange(word_, true)) words_.emplace_back();
    words_.back() += c;
  }

  std::vector<std::string> words_;
  bool word_ = false;                            // the last of them goes on
  char quote_ = '\0';
};

// What the options of env do to the command; the words of -S stand before the rest, options among them.
std::optional<std::size_t> apply_env(std::vector<std::string>& words, const OptionRules& rules, Started& started) {
  std::size_t at = 1;
  for (;;) {
    const OptionWords options = option_words(words, at, rules);
    for (const auto& [letter, value] : options.seen) {
      if (letter == 'C') started.directory = value;
      if (letter == 'i' || (letter == 'u' && value == "PATH")) started.other_path = true;
    }
    at = options.behind;
    if (!options.at_last) break;
    const auto split = words_of_env(options.seen.back().value);
    if (!split) return std::nullopt;
    words.insert(words.begin() + static_cast<std::ptrdiff_t>(at), split->begin(), split->end());
  }
  if (at < words.size() && words[at] == "-") started.other_path = true, ++at;   // as -i
  for (; at < words.size() && words[at].find('=') != std::string::npos; ++at)
    if (words[at].starts_with("PATH=")) started.other_path = true;
  return at;
}

}  // namespace

std::optional<std::vector<std::string>> words_of_env(std::string_view text) {
  EnvWords words;
  return words.read(text) ? std::optional(words.take()) : std::nullopt;
}

std::optional<Started> started_by(std::span<const std::string> command) {
  if (command.empty()) return std::nullopt;
  const auto name_of = [](const Starter& one) { return one.rules.name; };
  const auto starter = std::ranges::find(starters, last_part(command.front()), name_of);
  if (starter == std::end(starters)) return std::nullopt;
  Started started;
  std::vector<std::string> words(command.begin(), command.end());
  const std::optional<std::size_t> at = starter->rules.name == "env" ? apply_env(words, starter->rules, started)
                                                                     : option_words(words, 1, starter->rules).behind;
  if (!at || *at + starter->operands >= words.size()) return std::nullopt;
  started.command.assign(words.begin() + static_cast<std::ptrdiff_t>(*at + starter->operands), words.end());
  return started;
}

}  // namespace thole
