// The command of `map` with fields in it, read once and filled for every task.
//
// Fields: {} the whole item, {1} {2} … its cells, {name} a column, {#} the number of the task, {%} that of the bay it runs
// in, both from 1. {.} {/} {//} {/.} are the item as a path: without its extension, its last part, what lies above it, its last
// part without extension; {1.} {2/} … those of a cell. {{…}} stands for the field itself; other braces are left alone, as in
// sweep_template.hpp. A command without any field gets the item as its last words, as xargs and GNU parallel do.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thole::plan {

// What fills the fields.
struct MapItem {
  std::span<const std::string> cells;
  std::uint64_t number = 0;            // {#}
  std::size_t bay = 0;                 // {%}
};

class MapTemplate {
 public:
  // `columns`: names of the cells, empty where they have none; `cells`: how many every item has. Throws Error(usage) for a
  // field that no item can fill, with the nearest name.
  MapTemplate(std::span<const std::string> command, std::span<const std::string> columns, std::size_t cells);

  // Into words whose memory is used again.
  void fill(const MapItem& item, std::vector<std::string>& words) const;

  bool fixed_program() const { return words_.front().pieces.size() == 1 && words_.front().pieces.front().what == What::text; }

 private:
  enum class What { text, item, cell, number, bay };
  enum class Part { whole, stem, name, folder, stem_of_name };
  struct Piece {
    What what = What::text;
    std::string text;
    std::size_t cell = 0;
    Part part = Part::whole;
  };
  struct Word { std::vector<Piece> pieces; };

  Piece piece_of(std::string_view name, std::span<const std::string> columns, std::size_t cells) const;
  Word read(std::string_view word, std::span<const std::string> columns, std::size_t cells);
  static Part take_part(std::string_view& name);
  static void append_part(std::string& word, std::string_view cell, Part part);
  static bool is_field(std::string_view name, bool has_columns);

  std::vector<Word> words_;
  bool has_field_ = false;
};

}  // namespace thole::plan
