// How a chunk looks: every cell in turn, row by row, as its length (LEB128: seven bits a byte, low ones first) and its bytes. A
// row is found by walking: 1,024 rows are some microseconds.
#include "model/job_items.hpp"

#include "base/error.hpp"

namespace thole::model {

namespace {

void put(std::string& bytes, std::string_view cell) {
  std::size_t length = cell.size();
  for (; length >= 0x80; length >>= 7) bytes.push_back(static_cast<char>(0x80 | (length & 0x7f)));
  bytes.push_back(static_cast<char>(length));
  bytes.append(cell);
}

std::string_view take(std::string_view& bytes) {
  std::size_t length = 0;
  unsigned shift = 0;
  while (!bytes.empty() && shift < 35) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    length |= static_cast<std::size_t>(byte & 0x7f) << shift;
    shift += 7;
    if ((byte & 0x80) != 0) continue;
    if (length > bytes.size()) break;
    const std::string_view cell = bytes.substr(0, length);
    bytes.remove_prefix(length);
    return cell;
  }
  throw Error(ErrorCode::unavailable, "the items of a job are damaged in the queue's file");
}

}  // namespace

void Items::add(std::span<const std::string_view> row) {
  if (row.size() != columns_) throw Error(ErrorCode::internal, "a row of items with another number of cells");
  if (rows_++ % rows_per_chunk == 0) chunks_.emplace_back();
  for (std::string_view cell : row) put(chunks_.back(), cell);
}

std::vector<std::string> Items::row(std::size_t index) const {
  return row_of(chunks_.at(index / rows_per_chunk), columns_, index % rows_per_chunk);
}

std::vector<std::string> Items::row_of(std::string_view chunk, std::size_t columns, std::size_t row) {
  for (std::size_t skip = row * columns; skip > 0; --skip) take(chunk);
  std::vector<std::string> cells;
  for (std::size_t i = 0; i < columns; ++i) cells.emplace_back(take(chunk));
  return cells;
}

}  // namespace thole::model
