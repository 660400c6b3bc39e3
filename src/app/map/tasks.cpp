#include "app/map/tasks.hpp"

#include <algorithm>
#include <utility>

namespace thole::app {

// What runs is not to be lost by what comes behind it.
ItemSource::Next TasksToCome::read(std::vector<std::string>& cells) {
  try {
    return items_.next(cells);
  } catch (const Error& error) {
    failure_ = std::current_exception();
    unreadable_(error);
    return ItemSource::Next::end;
  }
}

void TasksToCome::look_ahead() {
  if (ahead_ || over_) return;
  waits_ = false;
  MapTask task;
  for (;;) {
    switch (read(task.cells)) {
      case ItemSource::Next::end:
        over_ = true;
        break;
      case ItemSource::Next::later:
        waits_ = true;
        if (watched_ < 0) pool_.watch(watched_ = items_.fd());
        return;
      case ItemSource::Next::item:
        task.number = ++numbers_;
        if (task.number < done_.size() && done_[task.number]) continue;
        ahead_ = std::move(task);
    }
    break;
  }
  if (watched_ >= 0) pool_.unwatch(std::exchange(watched_, -1));
}

std::uint64_t TasksToCome::left_to_try() const {
  return static_cast<std::uint64_t>(std::ranges::count_if(again_, [](const MapTask& task) { return task.tries > 0; }));
}

bool TasksToCome::next(MapTask& task) {
  if (!again_.empty()) {
    task = std::move(again_.front());
    again_.pop_front();
    return true;
  }
  look_ahead();
  if (!ahead_) return false;
  std::swap(task.cells, ahead_->cells);    // the old ones' memory is used again by what comes next
  task.number = ahead_->number;
  task.order = orders_++;
  task.tries = 0;
  ahead_.reset();
  return true;
}

}  // namespace thole::app
