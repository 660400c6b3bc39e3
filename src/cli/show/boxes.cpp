#include "cli/show/boxes.hpp"

#include <algorithm>
#include <utility>

#include "base/text.hpp"

namespace thole::cli {

namespace {

using Line = std::vector<Piece>;

std::string repeat(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

Line ruled(std::string_view left, const std::string& title, std::string_view right, std::size_t width) {
  const std::string shown = title.empty() ? "" : " " + printable(title, width - 6) + " ";
  return {{std::string(left) + "─", Ink::dim},
          {shown, Ink::bold},
          {repeat("─", width - 3 - columns_of(shown)) + std::string(right), Ink::dim}};
}

Line framed(const BoxRow& row, std::size_t width) {
  const std::size_t inside = width - box_frame, right = columns_of(row.right);
  const std::size_t room = inside - (right == 0 ? 0 : right + 1);
  Line line{{"│ ", Ink::dim}};
  std::size_t used = 0;
  for (const Piece& piece : row.left) {
    line.push_back({printable(piece.text, room - std::min(used, room)), piece.color});
    used += columns_of(line.back().text);
  }
  line.push_back({std::string(inside - used - right, ' ')});
  line.push_back({row.right, Ink::dim});
  line.push_back({" │", Ink::dim});
  return line;
}

std::vector<Line> lines_of(const TextBox& box, std::size_t width) {
  std::vector<Line> lines{ruled("┌", box.title, "┐", width)};
  for (const BoxSection& section : box.sections) {
    if (!section.title.empty()) lines.push_back(ruled("├", section.title, "┤", width));
    for (const BoxRow& row : section.rows) lines.push_back(framed(row, width));
  }
  lines.push_back(ruled("└", "", "┘", width));
  return lines;
}

std::string beside(const Screen& screen, const std::vector<std::vector<Line>>& row_of_boxes, std::size_t width) {
  std::size_t height = 0;
  for (const auto& box : row_of_boxes) height = std::max(height, box.size());
  std::string text;
  for (std::size_t row = 0; row < height; ++row) {
    bool first = true;
    for (const auto& box : row_of_boxes) {
      if (!std::exchange(first, false)) text += " ";
      const Line line = row + 1 == height ? box.back() : row + 1 < box.size() ? box[row] : framed({}, width);
      for (const Piece& piece : line) text += ink(screen, piece.color, piece.text);
    }
    text += "\n";
  }
  return text;
}

}  // namespace

std::string boxes(const Screen& screen, const std::vector<TextBox>& all, std::size_t across, std::size_t width) {
  std::string text;
  for (std::size_t first = 0; first < all.size(); first += across) {
    std::vector<std::vector<Line>> row;
    for (std::size_t b = first; b < std::min(first + across, all.size()); ++b) row.push_back(lines_of(all[b], width));
    text += beside(screen, row, width);
  }
  return text;
}

std::vector<std::string> broken_list(std::string text, std::size_t width, std::size_t most) {
  std::vector<std::string> lines;
  while (columns_of(text) > width && lines.size() + 1 < most) {
    const std::size_t at = text.find_last_of(", ", width - 1);
    if (at == std::string::npos || at == 0) break;
    lines.push_back(text.substr(0, text[at] == ' ' ? at : at + 1));
    text.erase(0, at + 1);
  }
  lines.push_back(printable(text, width));
  return lines;
}

}  // namespace thole::cli
