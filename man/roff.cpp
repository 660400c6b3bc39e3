#include "roff.hpp"

#include "base/text.hpp"

namespace thole::pages {

namespace {

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return result;
}

// A line that begins with a dot or a quote would be a request.
std::string protect(std::string line) { return line.starts_with('.') || line.starts_with('\'') ? "\\&" + line : line; }

}  // namespace

std::string escape(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  return protect(result);
}

std::string bold_words(std::string_view text) {
  std::string result;
  bool code = false, strong = false;
  for (std::string_view piece : split(text, '`')) {
    while (!piece.empty()) {
      const std::size_t stars = code ? piece.npos : piece.find("**");
      const std::string shown = escape(piece.substr(0, stars));
      if (!shown.empty()) result += code || strong ? "\\fB" + shown + "\\fR" : shown;
      if (stars == piece.npos) break;
      strong = !strong;
      piece.remove_prefix(stars + 2);
    }
    code = !code;
  }
  return protect(result);
}

std::string roff(std::string_view prose) {
  std::string result;
  bool example = false, paragraph = true;
  const auto end_example = [&] {
    if (example) result += ".EE\n.RE\n";
    example = false;
  };
  for (std::string_view line : split_lines(prose)) {
    if (line.starts_with("    ")) {
      if (!example) result += ".PP\n.RS 4\n.EX\n";
      example = true;
      result += escape(line.substr(4)) + "\n";
      continue;
    }
    if (trim(line).empty()) {
      paragraph = true;
      continue;
    }
    end_example();
    if (line.starts_with("## ")) {
      result += ".SH " + upper(line.substr(3)) + "\n";
      paragraph = false;
    } else if (line.starts_with("* ")) {
      result += ".IP \\(bu 2\n" + bold_words(line.substr(2)) + "\n";
      paragraph = false;
    } else {
      if (paragraph && !result.empty()) result += ".PP\n";
      result += bold_words(trim(line)) + "\n";
      paragraph = false;
    }
  }
  end_example();
  return result;
}

}  // namespace thole::pages
