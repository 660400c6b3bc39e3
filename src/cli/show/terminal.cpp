#include "cli/show/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/stream.hpp"
#include "base/text.hpp"

namespace thole::cli {

namespace {

constexpr std::size_t narrowest = 60;  // below it lines of tables may wrap
constexpr std::size_t narrowest_fold = 40;

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

std::optional<winsize> size_of_terminal(int fd) {
  if (!is_terminal(fd)) return std::nullopt;
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0) size = {};
  if (size.ws_col == 0) size.ws_col = 80;
  if (size.ws_row == 0) size.ws_row = 24;
  return size;
}

constexpr std::string_view kept_blank = "\u00a0";   // stands for a blank at which no line ends

std::string with_kept_blanks(std::string_view piece) {
  std::string kept;
  for (const char c : piece) kept += c == ' ' ? std::string(kept_blank) : std::string(1, c);
  return kept;
}

// The end of the piece in quotes that begins here; `begin` where there is none. An apostrophe within a word opens none.
std::size_t end_of_quoted(std::string_view line, std::size_t begin) {
  const char quote = line[begin];
  if ((quote != '\'' && quote != '"') || (begin > 0 && line[begin - 1] != ' ' && line[begin - 1] != '(')) return begin;
  for (std::size_t end = line.find(quote, begin + 1); end != std::string_view::npos; end = line.find(quote, end + 1))
    if (end + 1 == line.size() || std::string_view(" ,;:.)").find(line[end + 1]) != std::string_view::npos) return end + 1;
  return begin;
}

// Without its breakable blanks where it must not break.
std::string in_whole_pieces(std::string_view line, std::string_view object) {
  std::string whole;
  for (std::size_t at = 0; at < line.size();) {
    std::size_t end = end_of_quoted(line, at);
    if (object.starts_with('/') && line.substr(at).starts_with(object)) end = at + object.size();
    end = std::max(end, at + 1);
    const std::string_view piece = line.substr(at, end - at);
    whole += piece.size() > 1 ? with_kept_blanks(piece) : std::string(piece);
    at = end;
  }
  return whole;
}

}  // namespace

Screen screen_of(int fd, bool no_color) {
  Screen screen;
  const auto size = size_of_terminal(fd);
  if (!size) return screen;
  screen.columns = std::max<std::size_t>(size->ws_col, narrowest);
  screen.rows = size->ws_row;
  screen.colors = !no_color;
  return screen;
}

std::size_t columns_of_terminal(int fd) {
  const auto size = size_of_terminal(fd);
  return size ? std::max<std::size_t>(size->ws_col, narrowest_fold) : 0;
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

std::string wrap(std::string_view text, std::size_t columns, std::size_t indent, std::size_t start) {
  std::string out;
  std::size_t at = start;
  bool first = true;
  for (std::string_view word : split(text, ' ')) {
    if (!first && at + 1 + columns_of(word) > columns) {
      out += "\n" + std::string(indent, ' ');
      at = indent;
    } else if (!first) {
      out += ' ';
      ++at;
    }
    out += word;
    at += columns_of(word);
    first = false;
  }
  return out;
}

std::string fold(std::string_view text, std::size_t columns, std::string_view object) {
  std::string folded;
  bool first = true;
  for (std::string_view line : split_lines(text)) {
    if (!std::exchange(first, false)) folded += '\n';
    const std::size_t blanks = std::min(line.find_first_not_of(' '), line.size());
    folded += line.substr(0, blanks);
    folded += wrap(in_whole_pieces(line.substr(blanks), object), columns, std::max<std::size_t>(blanks + 2, 4), blanks);
  }
  for (std::size_t at = 0; (at = folded.find(kept_blank, at)) != std::string::npos;) folded.replace(at, kept_blank.size(), " ");
  return text.ends_with('\n') ? folded + "\n" : folded;
}

std::string in_ascii(std::string text) {
  constexpr std::pair<std::string_view, char> plain[] = {{"─", '-'}, {"│", '|'}, {"┌", '+'}, {"┐", '+'}, {"└", '+'},
                                                         {"┘", '+'}, {"├", '+'}, {"┤", '+'}, {"·", ','}, {"…", '~'}};
  for (const auto& [fancy, simple] : plain)
    for (std::size_t at = 0; (at = text.find(fancy, at)) != std::string::npos; ++at) text.replace(at, fancy.size(), 1, simple);
  return text;
}

}  // namespace thole::cli
