// Queues in one line, for tests of the fairness rule; and decisions as text, to compare with.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "plan/turn/turn.hpp"

namespace thole::test {

inline constexpr WallTime noon{Millis{1'795'262'400'000}};   // some instant; every time below counts from it
inline Seconds minutes(long n) { return Seconds{60 * n}; }

// One character a slot: '.' free, 'h' held for ever, 'a' to 'e' held until noon + 10, 20 … 50 minutes, 'f' unclaimed but
// used by a stranger, 'F' held for ever and used by a stranger, 'u' unclaimed but used by user 1000, 'x' by one who is not
// seen, 's' sick, ' ' no such slot. GPUs have 40 GiB.
struct Scene {
  model::QueueView queue;
  std::vector<plan::SlotState> states;
  std::uint32_t uid = 1000;                    // of whoever is added next

  explicit Scene(std::string_view slots) {
    for (const char c : slots) {
      model::SlotView slot;
      if (c != ' ') slot.key = fmt::format("GPU-{}", queue.slots.size());
      model::SlotHolder holder{.uid = uid, .shared = false, .share_with_any = false, .memory_mib = {}, .until = {}};
      if (c >= 'a' && c <= 'e') holder.until = noon + minutes(10 * (c - 'a' + 1));
      if (c == 'h' || c == 'F' || holder.until) slot.holders.push_back(holder);
      queue.slots.push_back(slot);
      const auto is_one_of = [c](std::string_view kinds) { return kinds.find(c) != std::string_view::npos; };
      states.push_back({.usable = !is_one_of("fFuxs "), .memory_mib = 40960, .sick = c == 's', .kept_by_use = is_one_of("fux"),
                        .load_percent = 10, .memory_percent = 10});
      if (c == 'u') states.back().used_by = 1000;
      states.back().used_by_unseen = c == 'x';
    }
  }

  // A sharer on a slot.
  Scene& sharer(unsigned slot, std::optional<std::uint64_t> mib, std::optional<Seconds> until = {}, bool any = false) {
    model::SlotHolder holder{.uid = uid, .shared = true, .share_with_any = any, .memory_mib = mib, .until = {}};
    if (until) holder.until = noon + *until;
    queue.slots[slot].holders.push_back(holder);
    return *this;
  }

  // The next ticket; they are numbered from 1.
  Scene& ticket(std::string_view eligible, unsigned count, std::optional<Seconds> time = {}) {
    model::TicketView ticket;
    ticket.number = queue.tickets.size() + 1;
    ticket.uid = uid;
    ticket.eligible = slots(eligible);
    ticket.count = count;
    ticket.time = time;
    ticket.since = noon;
    queue.tickets.push_back(ticket);
    return *this;
  }
  Scene& sharing(std::string_view eligible, std::uint64_t mib, std::optional<Seconds> time = {}, bool any = false) {
    ticket(eligible, 1, time);
    queue.tickets.back().shared = true;
    queue.tickets.back().share_with_any = any;
    queue.tickets.back().memory_mib = mib;
    return *this;
  }
  Scene& stopped() { queue.tickets.back().stopped = true; return *this; }
  Scene& leaving(unsigned n) { queue.tickets.back().leave = n; return *this; }
  Scene& beside(model::Beside whom) { queue.tickets.back().beside = whom; return *this; }
  Scene& needing(std::uint64_t mib) { queue.tickets.back().memory_mib = mib; return *this; }
  Scene& in_use(unsigned slot, std::uint64_t mib) { states[slot].unclaimed_mib = mib; return *this; }
  Scene& loaded(unsigned slot, double percent) { states[slot].load_percent = percent; return *this; }
  Scene& one_process(unsigned slot) { states[slot].one_process = true; return *this; }
  Scene& to_me(std::string_view usable) {
    for (std::size_t s = 0; s < states.size(); ++s) states[s].usable_to_me = slots(usable)[s];
    return *this;
  }
  Scene& trusting() { queue.tickets.back().trust_claims = true; return *this; }
  Scene& as(std::uint32_t who) { uid = who; return *this; }

  // Slots by digit: "013".
  static model::SlotSet slots(std::string_view digits) {
    model::SlotSet set;
    for (const char c : digits) set.set(static_cast<std::size_t>(c - '0'));
    return set;
  }
};

// The lowest slots.
inline plan::Chooser lowest(unsigned count) {
  return [count](const model::SlotSet& free) -> std::optional<std::vector<unsigned>> {
    std::vector<unsigned> slots;
    for (unsigned s = 0; s < free.size() && slots.size() < count; ++s)
      if (free[s]) slots.push_back(s);
    if (slots.size() < count) return std::nullopt;
    return slots;
  };
}

inline model::Decision decide_for(const Scene& scene, std::uint64_t number) {
  const model::TicketView& ticket = scene.queue.tickets[number - 1];
  return plan::decide(scene.queue, number, ticket, scene.states, lowest(ticket.count), noon);
}

inline std::string text(const model::SlotSet& set) {
  std::string result;
  for (std::size_t s = 0; s < set.size(); ++s)
    if (set[s]) result += static_cast<char>('0' + s);
  return result;
}

inline std::string text(const std::vector<std::uint64_t>& numbers) {
  std::vector<std::string> parts;
  for (const std::uint64_t n : numbers) parts.push_back(std::to_string(n));
  return join(parts, ",");
}

inline std::string after_noon(WallTime when) { return format_duration(std::chrono::ceil<Seconds>(when - noon)); }

// "take 01", "wait behind 1, watch 23, promise 10m"; what is empty is left out, and so is position 1.
inline std::string text(const model::Decision& decision) {
  if (const auto* take = std::get_if<model::Take>(&decision)) {
    std::string result = "take ";
    for (const unsigned s : take->slots) result += std::to_string(s);
    return take->nudge.empty() ? result : result + ", nudge " + text(take->nudge);
  }
  if (const auto* refuse = std::get_if<model::Refuse>(&decision))
    return (refuse->usage ? "never: " : "not here: ") + refuse->why;
  const auto& wait = std::get<model::Wait>(decision);
  std::string result = "wait";
  const auto add = [&](const std::string& what) { result += (result == "wait" ? " " : ", ") + what; };
  if (wait.behind) add(fmt::format("behind {}{}", *wait.behind, wait.yields_to.empty() ? "" : " that declared less"));
  if (wait.position != 1) add(fmt::format("at {}", wait.position));
  if (wait.could_start_but_for_behind) add("which could start");
  if (!wait.follow.empty()) add("follow " + text(wait.follow));
  if (wait.watch.any()) add("watch " + text(wait.watch));
  if (wait.observe.any()) add("observe " + text(wait.observe));
  if (!wait.nudge.empty()) add("nudge " + text(wait.nudge));
  if (wait.promise) add("promise " + after_noon(*wait.promise));
  if (wait.would_fit) add("fits " + format_duration(*wait.would_fit));
  return result;
}

}  // namespace thole::test
