#include "base/words.hpp"

#include "base/text.hpp"

namespace thole {

std::string plural(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string and_more(std::size_t all, std::size_t named) {
  return all > named ? fmt::format(" and {} more", all - named) : "";
}

std::vector<std::string> some_of(std::vector<std::string> all, std::size_t most) {
  const std::string more = and_more(all.size(), most);
  if (more.empty()) return all;
  all.resize(most);
  all.push_back(more.substr(1));
  return all;
}

std::string command_line(std::span<const std::string> argv) {
  std::string line;
  for (const std::string& word : argv) {
    if (!line.empty()) line += ' ';
    line += shell_quote(word);
  }
  return line;
}

}  // namespace thole
