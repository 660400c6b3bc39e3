// The tasks of `map` that are to begin: those that are tried again, and what its items make, read one ahead.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <vector>

#include "app/map/items.hpp"
#include "app/map/map.hpp"
#include "base/error.hpp"
#include "port/task_pool.hpp"

namespace thole::app {

class TasksToCome {
 public:
  // The pool's wait ends when items come; `done`: numbers of tasks that need not run. An item that cannot be read is told, and
  // is their end.
  using Unreadable = std::function<void(const Error& why)>;
  TasksToCome(ItemSource& items, const std::vector<bool>& done, port::TaskPool& pool, Unreadable unreadable)
      : items_(items), done_(done), pool_(pool), unreadable_(std::move(unreadable)) {}

  void look_ahead();                       // reads an item where none is read
  std::exception_ptr failure() const { return failure_; }   // that item's, or null
  bool next(MapTask& task);                // into a task whose memory is used again; false: none for now
  bool any() const { return !again_.empty() || ahead_; }
  bool may_come() const { return any() || (!over_ && waits_); }
  void again(MapTask task) { again_.push_back(std::move(task)); }
  std::uint64_t left_to_try() const;       // that have failed, and would be tried again
  void put_off(MapTask task) { again_.push_front(std::move(task)); }

 private:
  ItemSource::Next read(std::vector<std::string>& cells);

  ItemSource& items_;
  const std::vector<bool>& done_;
  port::TaskPool& pool_;
  Unreadable unreadable_;
  std::exception_ptr failure_;
  std::deque<MapTask> again_;
  std::optional<MapTask> ahead_;           // the next item, read already
  std::uint64_t numbers_ = 0, orders_ = 0;
  bool over_ = false, waits_ = false;      // the items; for them
  int watched_ = -1;
};

}  // namespace thole::app
