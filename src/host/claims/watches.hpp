// What a waiter sleeps on: FIFOs whose POLLHUP tells that a lock was let go.
//
// How this works. When the last descriptor of a locked FIFO closes, the kernel frees the flock and then raises POLLHUP at every
// reader. A reader that came when there was no writer is told nothing, so a watch is opened first and the lock tried
// after: still held then means that its end cannot be missed (invariant I4). HUP is a state: a new writer hides it. For gpu
// nodes that is right (held again); turn nodes are used again only when nobody watches them.
#pragma once

#include <poll.h>

#include <functional>
#include <vector>

#include "host/claims/claim_directory.hpp"
#include "port/claim_store.hpp"

namespace thole::host {

class Watches {
 public:
  enum class Seen {
    held,         // watched from now on; or locked by a stranger in a way that gives no HUP, then left to the 2 s look
    free,         // not locked (any more): look again
  };

  // Under alloc. Seen::free also where the node does not exist.
  Seen add_turn(const ClaimDirectory& directory, unsigned index);
  Seen add_gpu(const ClaimDirectory& directory, unsigned slot);
  Seen add_share(const ClaimDirectory& directory, unsigned slot, unsigned berth);

  // Any node; `open` opens it anew with these flags.
  Seen add(const std::function<Fd(int flags)>& open, port::Wake kind);

  void append_to(std::vector<pollfd>& polled) const;   // in order of adding
  port::Wake kind(std::size_t index) const { return watches_[index].kind; }
  std::size_t size() const { return watches_.size(); }
  bool any_event(Millis patience) const;

 private:
  struct Watch { Fd fd; port::Wake kind; };

  std::vector<Watch> watches_;
};

}  // namespace thole::host
