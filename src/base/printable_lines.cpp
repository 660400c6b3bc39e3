#include "base/printable_lines.hpp"

#include <algorithm>
#include <limits>

#include "base/text.hpp"

namespace thole {

std::string printable_lines(std::string_view text) {
  const auto harmless = [](char c) { return (c >= ' ' && c < 0x7f) || c == '\n' || c == '\t'; };
  if (std::all_of(text.begin(), text.end(), harmless)) return std::string(text);
  std::string result;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find_first_of("\n\t", begin), text.size());
    result += printable(text.substr(begin, end - begin), std::numeric_limits<std::size_t>::max() - 1);
    if (end < text.size()) result += text[end];
    begin = end + 1;
  }
  return result;
}

std::string in_one_line(std::string_view text) {
  std::string line;
  for (std::string_view part : split_lines(text)) line += (line.empty() ? "" : "; ") + std::string(trim(part));
  return line;
}

}  // namespace thole
