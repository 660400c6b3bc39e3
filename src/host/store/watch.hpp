// Who wants to know that the queue has changed, and how they are told.
//
// How this works. Every watcher makes a FIFO of its own in the directory `watch` and holds its reading end; its name begins
// with what it wants to know. A writer, once its change can be seen, writes one byte to each. A byte already there is enough: a
// full or unread FIFO is one wake-up. A FIFO nobody reads (its watcher was killed) answers the opening with ENXIO and is
// removed. So that this cannot befall one whose watcher is just about to open it, it gets that name only once it is open; the
// name it has before may be taken from it, and then it is made anew.
#pragma once

#include <memory>
#include <string>

#include "port/job_store.hpp"

namespace thole::host {

// Makes a watch in this directory, which is made where there is none.
std::unique_ptr<port::JobWatch> make_watch(const std::string& directory, port::Changes what);

// The writers' side: keeps the directory open, so that telling nobody costs next to nothing.
class Watchers {
 public:
  explicit Watchers(std::string directory) : directory_(std::move(directory)) {}
  ~Watchers();
  Watchers(const Watchers&) = delete;
  Watchers& operator=(const Watchers&) = delete;

  void tell(bool some_job_ended);

 private:
  std::string directory_;
  void* open_ = nullptr;   // DIR*
};

}  // namespace thole::host
