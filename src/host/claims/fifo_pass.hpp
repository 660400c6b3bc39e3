// What one pass works on; made under alloc, gone before alloc is left. Shared by the sources of FifoTicket.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>

#include "host/claims/fifo_store.hpp"

namespace thole::host {

struct FifoTicket::Pass {
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

  const WrittenTicket* at(unsigned index) const {
    const auto found = std::ranges::find(queue.tickets(), index, &WrittenTicket::index);
    return found == queue.tickets().end() ? nullptr : &*found;
  }
  bool anybody_before(std::optional<std::uint64_t> mine, const model::SlotSet& eligible) const {
    return std::any_of(queue.tickets().begin(), queue.tickets().end(), [&](const WrittenTicket& ticket) {
      return (!mine || ticket.view.number < *mine) && (ticket.view.eligible & eligible).any();
    });
  }
  bool alive(const WrittenTicket& ticket) const {
    Fd turn = nodes.open_turn(ticket.index, O_RDWR);
    return turn && ::flock(turn.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  }
};

}  // namespace thole::host
