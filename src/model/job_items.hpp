// Rows of text for the tasks of a sweep (lines of a file, records of a CSV), packed: a million rows cost what their bytes do.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thole::model {

class Items {
 public:
  static constexpr std::size_t rows_per_chunk = 1024;

  explicit Items(std::size_t columns = 1) : columns_(columns) {}

  void add(std::span<const std::string_view> row);   // as many cells as there are columns
  std::size_t columns() const { return columns_; }
  std::size_t size() const { return rows_; }
  bool empty() const { return rows_ == 0; }
  std::vector<std::string> row(std::size_t index) const;

  // As they are stored: `rows_per_chunk` rows each, the last one with what is left.
  const std::vector<std::string>& chunks() const { return chunks_; }

  // One row of one chunk. Throws Error(unavailable) when the bytes are no chunk of so many columns.
  static std::vector<std::string> row_of(std::string_view chunk, std::size_t columns, std::size_t row);

 private:
  std::size_t columns_, rows_ = 0;
  std::vector<std::string> chunks_;
};

}  // namespace thole::model
