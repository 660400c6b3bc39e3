#include "lost_wake.hpp"

#include <algorithm>
#include <variant>

#include "base/text.hpp"

namespace thole::torture {
namespace {

std::string numbers(const std::vector<std::uint64_t>& all) {
  std::string text;
  for (const std::uint64_t one : all) text += (text.empty() ? "" : " ") + std::to_string(one);
  return text.empty() ? "nobody" : text;
}

}  // namespace

std::string describe(const model::QueueView& queue, std::optional<std::uint64_t> mine, const model::Wants& wants,
                     const model::Decision& decision, WallTime now) {
  std::string text;
  for (unsigned slot = 0; slot < queue.slots.size(); ++slot) {
    if (!wants.eligible.test(slot)) continue;
    text += fmt::format(" unit {}:", slot);
    for (const model::SlotHolder& holder : queue.slots[slot].holders)
      text += fmt::format(" {}{}{}", holder.shared ? "share" : "whole", holder.memory_mib || !holder.shared ? "" : " unknown",
                          holder.until ? fmt::format(" for {} ms", (*holder.until - now).count()) : "");
  }
  text += ";";
  for (const model::TicketView& ticket : queue.tickets)
    if ((ticket.eligible & wants.eligible).any())
      text += fmt::format(" {}{}{}{}", ticket.number, ticket.shared ? " share" : "", ticket.stopped ? " stopped" : "",
                          mine == ticket.number ? " (mine)" : "");
  if (const auto* wait = std::get_if<model::Wait>(&decision))
    text += fmt::format("; waits behind {}, follows {}, watches {}, wakes {}", wait->behind.value_or(0),
                        numbers(wait->follow), wait->watch.to_ullong(), numbers(wait->nudge));
  return text;
}

std::string describe_lost(const port::Entry& entry, const model::Wait& last, bool overtook, const std::vector<Pass>& passes) {
  std::string text = fmt::format(
      "came by the clock: wanted {} of {} units, {}, time {}; overtook {}; had waited behind {}, watching {}, {} nudged, "
      "promise {}\n",
      entry.count, entry.eligible.size(), entry.shared ? "shared" : "exclusive", entry.time ? entry.time->count() : 0, overtook,
      last.behind ? std::to_string(*last.behind) : "nobody", last.watch.count(), last.nudge.size(), last.promise.has_value());
  const std::size_t first = passes.size() - std::min<std::size_t>(passes.size(), 4);
  for (std::size_t i = first; i < passes.size(); ++i)
    text += fmt::format("  pass {}, {} ms before, by {}:{}\n", i, passes.back().at_ms - passes[i].at_ms, passes[i].wake,
                        passes[i].seen);
  return text;
}

}  // namespace thole::torture
