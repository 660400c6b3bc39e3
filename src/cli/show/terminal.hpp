// How text reaches a person: width, colours, and tables that give way gracefully when the terminal is narrow.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thole::cli {

// What is known of the output.
struct Screen {
  std::size_t columns = 80;
  std::size_t rows = 0;  // 0: not a terminal
  bool colors = false;

  bool terminal() const { return rows != 0; }
};

// A terminal has its own size; anything else 80 columns and no colours. `no_color`: --no-color or NO_COLOR.
Screen screen_of(int fd, bool no_color);

enum class Ink { plain, bold, dim, red, green, yellow };
std::span<const std::string_view> own_colors();   // every sequence that ink() makes
std::string ink(const Screen& screen, Ink color, std::string_view text);

struct Cell {
  std::string text;        // printable
  std::string brief = {};  // a shorter form for narrow screens; "" = none
  Ink color = Ink::plain;
};

struct Row {
  std::vector<Cell> cells;
  Ink color = Ink::plain;  // of the cells that have none of their own
};

struct Column {
  std::string_view head;
  bool right = false;  // numbers
};

// One step in making a table fit: the column takes its brief form (`width` 0), is cut to `width` at the least, or left out.
constexpr std::size_t left_out = static_cast<std::size_t>(-1);
struct Squeeze {
  std::size_t column = 0, width = 0;
};

// Lays the rows out in `screen.columns`, taking the squeezes in order until they fit. The last column is not padded, and
// has what is left in the end.
std::string table(const Screen& screen, std::span<const Column> columns, std::vector<Row> rows,
                  std::span<const Squeeze> squeezes);

// A paragraph within the screen: its first line begins at column `start`, later ones at `indent`. Ends with a newline.
std::string paragraph(const Screen& screen, std::string_view text, std::size_t indent = 2, std::size_t start = 0);

// Lines of at most `columns`: the first begins at column `start`, the others at `indent`.
std::string wrap(std::string_view text, std::size_t columns, std::size_t indent, std::size_t start);

// The columns of the terminal, at least 40; 0: it is none.
std::size_t columns_of_terminal(int fd);

// Lines that are too long go on in indented ones. A piece in quotes and `object`, which may be a path, stay in one piece.
std::string fold(std::string_view text, std::size_t columns, std::string_view object = {});

// In characters that every terminal has, for one that does not speak UTF-8: drawings and what we cut.
std::string in_ascii(std::string text);

}  // namespace thole::cli
