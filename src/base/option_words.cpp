#include "base/option_words.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace thole {
namespace {

bool has(std::string_view letters, char letter) { return letters.find(letter) != letters.npos; }

// Reads the words of one line into `words`, which stands behind what has been read.
class Reader {
 public:
  Reader(std::span<const std::string> command, const OptionRules& rules, OptionWords& words)
      : command_(command), rules_(rules), words_(words) {}

  void read() {
    while (words_.behind < command_.size() && !words_.at_last) {
      const std::string_view word = command_[words_.behind];
      const bool ends = word == "--" || (word == "-" && rules_.of_shell);
      if (!ends && (word.size() < 2 || !(word[0] == '-' || (word[0] == '+' && rules_.of_shell)))) return;
      ++words_.behind;
      if (ends) return;
      if (word.starts_with("--")) read_long(word.substr(2));
      else read_letters(word);
    }
  }

 private:
  std::string next() { return words_.behind < command_.size() ? command_[words_.behind++] : std::string(); }

  void add(char letter, std::string value) {
    words_.at_last = has(rules_.last, letter);
    words_.seen.push_back({letter, std::move(value)});
  }

  void read_letters(std::string_view word) {
    for (std::size_t i = 1; i < word.size() && !words_.at_last; ++i) {
      const std::string_view rest = word.substr(i + 1);
      if (has(rules_.valued, word[i])) return add(word[i], rest.empty() ? next() : std::string(rest));
      if (has(rules_.attached, word[i])) return add(word[i], std::string(rest));
      add(word[i], has(rules_.apart, word[i]) ? next() : "");
    }
  }

  // Its beginning is enough, as getopt_long(3) has it; what is the beginning of two is refused there.
  void read_long(std::string_view word) {
    const std::string_view name = word.substr(0, word.find('='));
    for (const std::string_view one : split(rules_.longs, ' ')) {
      const std::size_t colon = one.find(':');
      if (one.empty() || !one.substr(0, colon).starts_with(name)) continue;
      const char letter = colon == one.npos ? '\0' : one[colon + 1];
      const bool apart = name.size() == word.size() && (!letter || has(rules_.valued, letter) || has(rules_.apart, letter));
      std::string value = apart ? next() : std::string(word.substr(std::min(name.size() + 1, word.size())));
      if (letter) add(letter, std::move(value));
      return;
    }
  }

  std::span<const std::string> command_;
  const OptionRules& rules_;
  OptionWords& words_;
};

}  // namespace

OptionWords option_words(std::span<const std::string> command, std::size_t at, const OptionRules& rules) {
  OptionWords words;
  words.behind = at;
  Reader(command, rules, words).read();
  return words;
}

}  // namespace thole
