#include "cli/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/text.hpp"
#include "cli/help.hpp"

namespace thole::cli {

namespace {

constexpr std::size_t narrowest = 60;  // below it lines may wrap

// By the number of the ink; the first ends every other.
constexpr std::string_view colors[] = {"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[32m", "\x1b[33m"};

std::vector<std::size_t> widths_of(std::span<const Column> columns, const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns.size(); ++c) {
    widths.push_back(columns[c].head.size());
    for (const Row& row : rows)
      if (c < row.cells.size()) widths[c] = std::max(widths[c], columns_of(row.cells[c].text));
  }
  return widths;
}

std::size_t total(const std::vector<std::size_t>& widths) {
  std::size_t sum = 0;
  for (std::size_t width : widths)
    if (width != left_out) sum += width + 1;       // and the blank behind
  return sum - std::min<std::size_t>(sum, 1);
}

void take_brief(std::vector<Row>& rows, std::size_t column) {
  for (Row& row : rows)
    if (column < row.cells.size() && !row.cells[column].brief.empty()) row.cells[column].text = row.cells[column].brief;
}

std::string pad(std::string_view text, std::size_t width, bool right) {
  const std::size_t used = columns_of(text);
  const std::string blanks(width > used ? width - used : 0, ' ');
  return right ? blanks + std::string(text) : std::string(text) + blanks;
}

}  // namespace

Screen screen_of(int fd, bool no_color) {
  Screen screen;
  winsize size{};
  if (!::isatty(fd)) return screen;
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) screen.columns = std::max<std::size_t>(size.ws_col, narrowest);
  screen.rows = size.ws_row != 0 ? size.ws_row : 24;
  screen.colors = !no_color;
  return screen;
}

std::string ink(const Screen& screen, Ink color, std::string_view text) {
  if (!screen.colors || color == Ink::plain || text.empty()) return std::string(text);
  return fmt::format("{}{}{}", colors[static_cast<int>(color)], text, colors[0]);
}

std::span<const std::string_view> own_colors() { return colors; }

std::string table(const Screen& screen, std::span<const Column> columns, std::vector<Row> rows,
                  std::span<const Squeeze> squeezes) {
  std::vector<std::size_t> widths = widths_of(columns, rows);
  const std::size_t whole = widths.back();
  for (const Squeeze& squeeze : squeezes) {
    const std::size_t wide = total(widths);
    if (wide <= screen.columns) break;
    if (squeeze.width == left_out) {
      widths[squeeze.column] = left_out;
    } else if (squeeze.width == 0) {
      take_brief(rows, squeeze.column);
      widths[squeeze.column] = widths_of(columns, rows)[squeeze.column];
    } else if (std::size_t& width = widths[squeeze.column]; width > squeeze.width) {
      const std::size_t excess = wide - screen.columns;
      width = std::max(width > excess ? width - excess : 0, squeeze.width);
    }
  }

  if (const std::size_t wide = total(widths); wide < screen.columns)
    widths.back() = std::min(whole, widths.back() + screen.columns - wide);

  std::string text;
  Row head;
  for (const Column& column : columns) head.cells.push_back({std::string(column.head)});
  head.color = Ink::dim;
  rows.insert(rows.begin(), std::move(head));
  for (const Row& row : rows) {
    std::string line, blanks;
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      if (widths[c] == left_out) continue;
      const Cell& cell = row.cells[c];
      const std::string shown = pad(printable(cell.text, widths[c]), widths[c], columns[c].right);
      const std::size_t begin = shown.find_first_not_of(' ');
      if (begin != std::string::npos) {  // blanks before the next word wait, so that no line ends in them
        const std::size_t end = shown.find_last_not_of(' ') + 1;
        line += blanks + shown.substr(0, begin) +
                ink(screen, cell.color == Ink::plain ? row.color : cell.color, shown.substr(begin, end - begin));
        blanks = shown.substr(end);
      } else {
        blanks += shown;
      }
      blanks += ' ';
    }
    text += line + "\n";
  }
  return text;
}

std::string paragraph(const Screen& screen, std::string_view text, std::size_t indent, std::size_t start) {
  const std::size_t columns = std::min<std::size_t>(screen.columns, 100);
  std::string all;
  for (std::string_view line : split_lines(text)) all += wrap(line, columns, indent, start) + "\n";
  return all;
}

}  // namespace thole::cli
