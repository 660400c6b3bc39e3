#include "plan/job/map_template.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plan/job/sweep.hpp"

namespace thole::plan {

namespace {

bool is_number(std::string_view name) {
  return !name.empty() && name.size() <= 4 &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void append(std::string& word, std::uint64_t number) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  word.append(digits, end);
}

}  // namespace

// Cuts "." "/" "//" "/." off the end of a field's name.
MapTemplate::Part MapTemplate::take_part(std::string_view& name) {
  constexpr std::pair<std::string_view, Part> parts[] = {
      {"/.", Part::stem_of_name}, {"//", Part::folder}, {"/", Part::name}, {".", Part::stem}};
  for (const auto& [sign, part] : parts) {
    if (!name.ends_with(sign)) continue;
    const std::string_view rest = name.substr(0, name.size() - sign.size());
    if (!rest.empty() && !is_number(rest)) continue;
    name = rest;
    return part;
  }
  return Part::whole;
}

// As GNU parallel has them: an extension begins with the last dot of the last part, and the folder is that of dirname(1).
void MapTemplate::append_part(std::string& word, std::string_view cell, Part part) {
  const std::size_t slash = cell.rfind('/');
  if (part == Part::folder) {
    const std::size_t end = cell.find_last_not_of('/');
    const std::size_t cut = end == std::string_view::npos ? end : cell.rfind('/', end);
    const std::size_t above = cut == std::string_view::npos ? cut : cell.find_last_not_of('/', cut);
    if (above != std::string_view::npos) word += cell.substr(0, above + 1);
    else word += cell.starts_with('/') ? "/" : ".";
    return;
  }
  if ((part == Part::name || part == Part::stem_of_name) && slash != std::string_view::npos) cell.remove_prefix(slash + 1);
  if (part == Part::stem || part == Part::stem_of_name) {
    const std::size_t dot = cell.rfind('.'), last = cell.rfind('/');
    if (dot != std::string_view::npos && (last == std::string_view::npos || dot > last))
      cell = cell.substr(0, dot);
  }
  word += cell;
}

bool MapTemplate::is_field(std::string_view name, bool has_columns) {
  take_part(name);
  return name.empty() || name == "#" || name == "%" || is_number(name) || (has_columns && is_variable_name(name));
}

MapTemplate::Piece MapTemplate::piece_of(std::string_view name, std::span<const std::string> columns, std::size_t cells) const {
  const std::string_view typed = name;
  const Part part = take_part(name);
  if (name.empty()) return {What::item, {}, 0, part};
  if (name == "#") return {What::number, {}, 0};
  if (name == "%") return {What::bay, {}, 0};
  if (is_number(name)) {
    const std::uint64_t cell = *parse_u64(name);
    if (cell == 0 || cell > cells)
      throw Error(ErrorCode::usage, fmt::format("the command says {{{}}}, but an item has {}", typed,
                                                cells == 1 ? std::string("one part only") : fmt::format("{} parts", cells)))
          .hint(fmt::format("{{{{{}}}}} passes the braces on; {{#}} is the task's number, {{%}} its place", name));
    return {What::cell, {}, cell - 1, part};
  }
  const auto column = std::find(columns.begin(), columns.end(), name);
  if (column != columns.end()) return {What::cell, {}, static_cast<std::size_t>(column - columns.begin())};
  const auto near = nearest(name, columns);
  throw Error(ErrorCode::usage, fmt::format("the command says {{{}}}, but there is no column of that name", name))
      .hint(near ? fmt::format("did you mean {{{}}}?", *near)
                 : fmt::format("the columns are {}; {{{{{}}}}} passes the braces on",
                               join({columns.data(), columns.size()}, ", "), name));
}

MapTemplate::Word MapTemplate::read(std::string_view word, std::span<const std::string> columns, std::size_t cells) {
  Word result;
  std::string text;
  const auto flush = [&] {
    if (!text.empty() || (result.pieces.empty() && word.empty())) result.pieces.push_back({What::text, std::move(text), 0});
    text.clear();
  };
  for (std::size_t at = 0; at < word.size();) {
    const bool doubled = word.substr(at, 2) == "{{";
    const std::size_t begin = at + (doubled ? 2 : 1);
    const std::size_t close = word[at] == '{' ? word.find_first_of("{}", begin) : std::string_view::npos;
    const std::string_view name =
        close == std::string_view::npos || word[close] != '}' ? "{" : word.substr(begin, close - begin);
    if (!is_field(name, !columns.empty()) || (doubled && word.substr(close, 2) != "}}")) {
      text += word[at++];
      continue;
    }
    at = close + (doubled ? 2 : 1);
    if (doubled) {
      text += fmt::format("{{{}}}", name);
      continue;
    }
    flush();
    result.pieces.push_back(piece_of(name, columns, cells));
    has_field_ = true;
  }
  flush();
  return result;
}

MapTemplate::MapTemplate(std::span<const std::string> command, std::span<const std::string> columns, std::size_t cells) {
  for (const std::string& word : command) words_.push_back(read(word, columns, cells));
  if (has_field_) return;
  for (std::size_t cell = 0; cell < cells; ++cell) words_.push_back({{{What::cell, {}, cell}}});
}

void MapTemplate::fill(const MapItem& item, std::vector<std::string>& words) const {
  words.resize(words_.size());
  for (std::size_t i = 0; i < words_.size(); ++i) {
    std::string& word = words[i];
    word.clear();
    for (const Piece& piece : words_[i].pieces) switch (piece.what) {
        case What::text: word += piece.text; break;
        case What::number: append(word, item.number); break;
        case What::bay: append(word, item.bay); break;
        case What::cell: append_part(word, item.cells[piece.cell], piece.part); break;
        case What::item:
          for (std::size_t cell = 0; cell < item.cells.size(); ++cell) {
            if (cell > 0) word += ' ';
            append_part(word, item.cells[cell], piece.part);
          }
      }
  }
}

}  // namespace thole::plan
