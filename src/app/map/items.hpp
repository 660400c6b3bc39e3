// What `map` maps over: a source of items that may still be arriving.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "model/job_items.hpp"

namespace thole::app {

class ItemSource {
 public:
  virtual ~ItemSource() = default;

  enum class Next { item, later, end };
  // Into cells whose memory is used again. `later`: ask again when fd() is readable.
  virtual Next next(std::vector<std::string>& cells) = 0;
  virtual int fd() const { return -1; }
};

// Every combination of the lists, the last one changing fastest.
class ListedItems : public ItemSource {
 public:
  explicit ListedItems(std::vector<std::vector<std::string>> lists) : lists_(std::move(lists)) {}
  Next next(std::vector<std::string>& cells) override;

 private:
  std::vector<std::vector<std::string>> lists_;
  std::uint64_t at_ = 0;
};

// The rows of a table.
class TableItems : public ItemSource {
 public:
  explicit TableItems(model::Items items) : items_(std::move(items)) {}
  Next next(std::vector<std::string>& cells) override;

 private:
  model::Items items_;
  std::uint64_t at_ = 0;
};

// One item a line, as they come in: a task can start while others are still being written. Empty lines are none; with `ends_by`
// zero every text that a zero byte ends is an item, as find -print0 writes them.
class ItemLines : public ItemSource {
 public:
  ItemLines(Fd file, std::string name, char ends_by);   // the name is for messages
  Next next(std::vector<std::string>& cells) override;
  int fd() const override { return waits_ ? file_.get() : -1; }

 private:
  bool take_line(std::vector<std::string>& cells);

  Fd file_;
  std::string name_;
  char ends_by_;
  bool waits_;                         // a pipe or a terminal: reading it may block
  bool over_ = false;
  std::string buffer_;
  std::size_t at_ = 0;                 // what is before has been given out
  std::size_t searched_ = 0;           // no end of a line before this
};

// The rows of a CSV file, read to its end; `columns` are the names in its first row. Throws Error(usage) with `name`:line.
std::unique_ptr<ItemSource> csv_items(const Fd& file, const std::string& name, std::vector<std::string>& columns);

}  // namespace thole::app
