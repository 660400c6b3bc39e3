#include "cli/output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "base/printable_lines.hpp"
#include "base/text.hpp"
#include "cli/outlet.hpp"
#include "cli/show/terminal.hpp"

namespace thole::cli {
namespace {

// The length of one of our own colour sequences at the beginning; 0: none.
std::size_t own_color(std::string_view text) {
  for (std::string_view own : own_colors())
    if (text.starts_with(own)) return own.size();
  return 0;
}

}  // namespace

std::string for_terminal(std::string_view text, bool colors) {
  if (!colors) return printable_lines(text);
  std::string result;
  std::size_t begin = 0, at = 0;   // of the words since the last colour
  while ((at = text.find('\x1b', at)) != std::string_view::npos) {
    const std::size_t length = own_color(text.substr(at));
    if (length == 0) { ++at; continue; }
    result += printable_lines(text.substr(begin, at - begin));
    result += text.substr(at, length);
    begin = at += length;
  }
  return result + printable_lines(text.substr(begin));
}

bool put_text(int fd, std::string_view text, bool colors) { return put_bytes(fd, for_terminal(text, colors)); }

namespace {
void must_be_written(bool is_written) {
  if (!is_written) throw Error(ErrorCode::internal, "cannot write the result").because(errno);
}
}  // namespace

void give_text(std::string_view text, bool colors) { must_be_written(put_text(STDOUT_FILENO, text, colors)); }

void give_bytes(std::string_view bytes) { must_be_written(put_bytes(STDOUT_FILENO, bytes)); }

bool tell(std::string_view text, std::string_view object) {
  const std::string said = printable_lines(fmt::format("thole: {}", text));
  const std::size_t columns = columns_of_terminal(STDERR_FILENO);
  return put_bytes(STDERR_FILENO, (columns == 0 ? said : fold(said, columns, object)) + "\n");
}

std::string frame_of(std::string_view text, bool colors, std::size_t rows, bool first) {
  std::string frame = first ? "\x1b[2J\x1b[H" : "\x1b[H";
  const std::vector<std::string_view> lines = split_lines(text);
  const std::size_t room = std::max<std::size_t>(rows, 2) - 1, shown = lines.size() <= room ? lines.size() : room - 1;
  for (std::string_view line : std::span(lines).first(shown)) frame += fmt::format("{}\x1b[K\n", for_terminal(line, colors));
  if (shown < lines.size()) frame += fmt::format("({} more lines: the screen is too low)\x1b[K\n", lines.size() - shown);
  return frame + "\x1b[J";
}

void give_frame(std::string_view text, bool colors, std::size_t rows, bool first) {
  must_be_written(put_bytes(STDOUT_FILENO, frame_of(text, colors, rows, first)));
}

bool put_bytes(int fd, std::string_view bytes) {
  if (Outlet* const outlet = Outlet::current()) return outlet->put(fd, bytes);
  return put_all(fd, bytes);
}

}  // namespace thole::cli
