#include "host/process/first_line.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/fd.hpp"

namespace thole::host {
namespace {

constexpr std::size_t most_of_kernel = 256;        // what it reads of a script (BINPRM_BUF_SIZE)
constexpr std::string_view script_blanks = " \t", name_ends(" \t\0", 3);

std::string beginning_of(const std::string& path) {
  Fd fd = open_at(AT_FDCWD, path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY);
  std::string text(most_of_kernel, '\0');
  const ssize_t read = fd ? ::pread(fd.get(), text.data(), text.size(), 0) : -1;
  text.resize(read > 0 ? static_cast<std::size_t>(read) : 0);
  return text;
}

}  // namespace

std::optional<FirstLine> first_line_of(const std::string& path) {
  const std::string text = beginning_of(path);
  if (!text.starts_with("#!")) return std::nullopt;
  const bool cut = text.size() == most_of_kernel && text.find('\n') == text.npos;
  const std::string_view line = std::string_view(text).substr(2, text.find('\n') - 2);
  const std::size_t begin = std::min(line.find_first_not_of(script_blanks), line.size());
  const std::size_t end = std::min(line.find_first_of(name_ends, begin), line.size());
  if (begin == end || (cut && end == line.size())) return std::nullopt;
  FirstLine first{std::string(line.substr(begin, end - begin)), "", line.ends_with('\r')};
  const std::size_t rest = std::min(line.find_first_not_of(script_blanks, end), line.size());
  first.argument = line.substr(rest, std::min(line.find('\0', rest), line.size()) - rest);
  first.argument.resize(first.argument.find_last_not_of(script_blanks) + 1);
  return first;
}

}  // namespace thole::host
