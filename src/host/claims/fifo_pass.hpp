// What one pass works on; made under alloc, gone before alloc is left. Shared by the sources of FifoPlace.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "host/claims/fifo_store.hpp"

namespace thole::host {

struct FifoPlace::Pass {
  Pass(FifoStore& store, AllocBudget& alloc, const Section::Said& stuck, std::span<const int> cancel)
      : section(store, alloc, stuck, cancel), nodes(store.nodes()), queue(store.queue()), who(nodes.who()), look(nodes, who),
        view(store.view()),
        now(std::chrono::time_point_cast<Millis>(std::chrono::system_clock::now())) {}

  Section section;
  ClaimDirectory& nodes;
  QueueFile& queue;
  WhoFile who;
  SlotLook look;
  model::QueueView& view;
  WallTime now;
  model::SlotSet wanted;
  bool slots_changed = false;   // since they were looked at: `thole init` has been here

  const Ticket* at(unsigned place) const {
    for (const Ticket& ticket : queue.tickets())
      if (ticket.place == place) return &ticket;
    return nullptr;
  }
  bool anybody_before(std::optional<std::uint64_t> mine, const model::SlotSet& eligible) const {
    return std::any_of(queue.tickets().begin(), queue.tickets().end(), [&](const Ticket& ticket) {
      return (!mine || ticket.view.number < *mine) && (ticket.view.eligible & eligible).any();
    });
  }
  bool alive(const Ticket& ticket) const {
    Fd turn = nodes.open_turn(ticket.place, O_RDWR);
    return turn && ::flock(turn.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  }
};

}  // namespace thole::host
