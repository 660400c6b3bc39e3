// Boxes of text side by side: a title in the upper line, sections divided by lines with titles of their own, rows of coloured
// pieces.
#pragma once

#include <string>
#include <vector>

#include "cli/show/terminal.hpp"

namespace thole::cli {

struct Piece {
  std::string text;  // printable
  Ink color = Ink::plain;
};

struct BoxRow {
  std::vector<Piece> left;  // cut where the box ends
  std::string right = {};   // at the right edge
};

struct BoxSection {
  std::string title;  // "" = no line above it
  std::vector<BoxRow> rows;
};

struct TextBox {
  std::string title;
  std::vector<BoxSection> sections;
};

constexpr std::size_t box_frame = 4;  // columns that a box takes around its rows

// Rows of `across` boxes, each `width` columns wide and as high as the highest beside it, one blank between.
std::string boxes(const Screen& screen, const std::vector<TextBox>& all, std::size_t across, std::size_t width);

// Breaks a list after a comma or a blank into at most `most` lines; what is left over ends in an ellipsis.
std::vector<std::string> broken_list(std::string text, std::size_t width, std::size_t most);

}  // namespace thole::cli
