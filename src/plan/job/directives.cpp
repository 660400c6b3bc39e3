#include "plan/job/directives.hpp"

#include "base/error.hpp"
#include "base/text.hpp"

namespace thole::plan {

namespace {

constexpr std::string_view mark = "#THOLE";

bool is_directive(std::string_view line) {
  return line.starts_with(mark) && (line.size() == mark.size() || line[mark.size()] == ' ' || line[mark.size()] == '\t');
}

Error mistake(const std::string& name, unsigned line, std::string_view why) {
  return Error(ErrorCode::usage, fmt::format("{}:{}: {}", printable(name), line, why));
}

}  // namespace

std::vector<Directive> read_directives(std::string_view script, const std::string& name) {
  std::vector<Directive> all;
  if (script.substr(0, script.find('\n')).find('\0') != std::string_view::npos) return all;
  bool commands = false;
  unsigned number = 0;
  for (std::string_view line : split_lines(script)) {
    ++number;
    line = trim(line);
    if (!is_directive(line)) {
      commands = commands || (!line.empty() && line.front() != '#');
      continue;
    }
    if (commands)
      throw mistake(name, number, "a #THOLE line after the first command has no effect")
          .hint("move it to the top of the script");
    try {
      all.push_back({number, split_words(line.substr(mark.size()))});
    } catch (const Error& error) {
      throw mistake(name, number, error.what());
    }
  }
  return all;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!quote && blank) {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (quote && c == quote) quote = 0;
    else if (!quote && (c == '\'' || c == '"')) quote = c;
    else if (c == '\\' && quote != '\'' && i + 1 < text.size() && (!quote || text[i + 1] == '"' || text[i + 1] == '\\'))
      words.back() += text[++i];
    else words.back() += c;
  }
  if (quote) throw Error(ErrorCode::usage, "a quote is not closed");
  return words;
}

}  // namespace thole::plan
