// Wakes who waits for changes of the queue. On a disk that can only be read nobody can be told by the one who makes them
// (another mount of it can be written to): then it is looked at every second.
#pragma once

#include <memory>

#include "base/time.hpp"
#include "port/job_reader.hpp"

namespace thole::app {

class ChangeWatch {
 public:
  // Look after making it, or a change in between is missed. Throws Error(unavailable).
  ChangeWatch(port::JobMoments& jobs, port::Changes what) : jobs_(jobs), what_(what) { make(); }

  int fd() const { return watch_ ? watch_->fd() : -1; }         // readable when something has changed
  bool is_told() const { return watch_ != nullptr; }            // else `patience` is over before the next look
  Millis patience() const { return watch_ ? Millis::max() : Millis{1000}; }

  // After a sleep; true where changes were missed, because somebody had removed what tells of them.
  bool renew();
  void drain() {
    if (watch_) watch_->drain();
  }

 private:
  void make();

  port::JobMoments& jobs_;
  port::Changes what_;
  std::unique_ptr<port::JobWatch> watch_;
};

}  // namespace thole::app
