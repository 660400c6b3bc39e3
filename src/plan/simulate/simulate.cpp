#include "plan/simulate/simulate.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <queue>
#include <set>

#include "plan/turn/turn.hpp"

namespace thole::plan {

namespace {

using model::SlotSet;

constexpr std::uint64_t memory_of_each_mib = 81920;

WallTime at(Seconds since_the_first) { return WallTime{} + since_the_first; }

class Play {
 public:
  Play(const std::vector<PastJob>& jobs, unsigned gpus, QueuePolicy policy)
      : jobs_(jobs), policy_(policy), states_(gpus, {true, memory_of_each_mib, 0}), starts_(jobs.size()),
        promises_(jobs.size()) {
    for (unsigned s = 0; s < gpus; ++s) {
      queue_.slots.push_back({"GPU-" + std::to_string(s), {}});
      all_.set(s);
    }
    free_ = gpus;
  }

  void run() {
    std::size_t next = 0;
    while (next < jobs_.size() || !running_.empty()) {
      const bool ends_first = !running_.empty() && (next == jobs_.size() || running_.top().end <= jobs_[next].arrival);
      now_ = ends_first ? running_.top().end : jobs_[next].arrival;
      if (ends_first) {
        while (!running_.empty() && running_.top().end == now_) end_first();
        settle();
      } else {
        arrive(next++);
      }
    }
  }

  Played result() const {
    Played result;
    result.policy = policy_;
    std::vector<double> all, wide;
    double busy = 0;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const auto waited = static_cast<double>((starts_[i] - jobs_[i].arrival).count());
      all.push_back(waited);
      if (jobs_[i].gpus >= wide_gpus) wide.push_back(waited);
      busy += static_cast<double>(jobs_[i].duration.count()) * jobs_[i].gpus;
      if (!promises_[i]) continue;
      ++result.promised;
      result.late += starts_[i] > *promises_[i];
    }
    result.starts = starts_;
    result.all = waits(std::move(all));
    result.wide = waits(std::move(wide));
    const auto span = jobs_.empty() ? Seconds{0} : now_ - jobs_.front().arrival;
    if (span > Seconds{0}) result.use = busy / (static_cast<double>(span.count()) * static_cast<double>(states_.size()));
    return result;
  }

 private:
  struct Running {
    Seconds end;
    std::vector<unsigned> slots;
    bool operator<(const Running& other) const { return end > other.end; }   // the earliest end on top
  };

  static Waits waits(std::vector<double> all) {
    Waits result;
    result.jobs = all.size();
    if (all.empty()) return result;
    std::sort(all.begin(), all.end());
    for (const double one : all) result.mean_s += one / static_cast<double>(all.size());
    const auto nearest_rank = [&](double share) {
      return all[static_cast<std::size_t>(std::ceil(share * static_cast<double>(all.size()))) - 1];
    };
    result.median_s = nearest_rank(0.5);
    result.p95_s = nearest_rank(0.95);
    return result;
  }

  // Tickets are the jobs' numbers in the trace, from 1.
  model::TicketView ticket_of(std::size_t job) const {
    model::TicketView ticket;
    ticket.number = job + 1;
    ticket.eligible = all_;
    ticket.count = jobs_[job].gpus;
    ticket.time = jobs_[job].declared;
    return ticket;
  }

  model::Decision ask(const model::TicketView& ticket, bool queued) const {
    const Chooser lowest = [&](const SlotSet& open) -> std::optional<std::vector<unsigned>> {
      std::vector<unsigned> slots;
      for (unsigned s = 0; s < states_.size() && slots.size() < ticket.count; ++s)
        if (open[s]) slots.push_back(s);
      return slots;
    };
    return decide(queue_, queued ? std::optional(ticket.number) : std::nullopt, ticket, states_, lowest, at(now_));
  }

  void arrive(std::size_t job) {
    model::TicketView ticket = ticket_of(job);
    const model::Decision decision = ask(ticket, false);
    const bool in_turn = queue_.tickets.empty() || policy_ == QueuePolicy::thole;
    if (const auto* take = std::get_if<model::Take>(&decision); take && in_turn) return start(ticket, take->slots);
    if (policy_ == QueuePolicy::first_fit && ticket.count <= free_) return start(ticket, free_slots(ticket.count));
    if (const auto* wait = std::get_if<model::Wait>(&decision)) promise(job, *wait);
    queue_.tickets.push_back(std::move(ticket));
    if (policy_ == QueuePolicy::easy) settle_easily();
  }

  // After some ends: who waits and may start does.
  void settle() {
    if (policy_ == QueuePolicy::first_fit) return settle_whoever_fits();
    if (policy_ == QueuePolicy::easy) return settle_easily();
    std::set<std::uint64_t> woken;             // the earliest is asked first
    if (!queue_.tickets.empty()) woken.insert(queue_.tickets.front().number);
    while (!woken.empty()) {
      const auto ticket = find(*woken.begin());
      woken.erase(woken.begin());
      const model::Decision decision = ask(*ticket, true);
      if (const auto* take = std::get_if<model::Take>(&decision)) {
        const model::TicketView started = *ticket;
        const auto follower = queue_.tickets.erase(ticket);
        start(started, take->slots);
        if (follower != queue_.tickets.end()) woken.insert(follower->number);
        if (policy_ == QueuePolicy::thole) woken.insert(take->nudge.begin(), take->nudge.end());
      } else if (const auto* wait = std::get_if<model::Wait>(&decision)) {
        promise(ticket->number - 1, *wait);
        if (policy_ == QueuePolicy::thole) woken.insert(wait->nudge.begin(), wait->nudge.end());
      }
    }
  }

  // A promise made again may only be an earlier one; what a policy is held to is the earliest.
  void promise(std::size_t job, const model::Wait& wait) {
    if (!wait.promise) return;
    const auto start = std::chrono::ceil<Seconds>(wait.promise->time_since_epoch());
    promises_[job] = std::min(start, promises_[job].value_or(start));
  }

  void promise_head() {
    if (queue_.tickets.empty()) return;
    const model::Decision head = ask(queue_.tickets.front(), true);
    if (const auto* wait = std::get_if<model::Wait>(&head)) promise(queue_.tickets.front().number - 1, *wait);
  }

  void settle_easily() {
    while (!queue_.tickets.empty() && queue_.tickets.front().count <= free_) start_waiting(queue_.tickets.begin());
    promise_head();
    if (queue_.tickets.empty()) return;
    const auto head = start_of_head(queue_.tickets.front().count);
    if (!head) return;                         // nobody knows when its turn comes: whoever passes might delay it
    unsigned spare = head->spare;
    for (auto ticket = std::next(queue_.tickets.begin()); ticket != queue_.tickets.end() && free_ > 0;) {
      const bool ends_before = ticket->time && now_ + *ticket->time <= head->when;
      if (ticket->count > free_ || (!ends_before && ticket->count > spare)) {
        ++ticket;
        continue;
      }
      if (!ends_before) spare -= ticket->count;
      ticket = start_waiting(ticket);
    }
  }

  // When enough will have ended for a job of so many GPUs, by what they declared; and how many are free then beside it.
  struct HeadStart { Seconds when; unsigned spare; };
  std::optional<HeadStart> start_of_head(unsigned count) const {
    std::vector<Seconds> ends;
    for (const model::SlotView& slot : queue_.slots)
      for (const model::SlotHolder& holder : slot.holders)
        if (holder.until) ends.push_back(std::chrono::floor<Seconds>(holder.until->time_since_epoch()));
    std::sort(ends.begin(), ends.end());
    if (free_ + ends.size() < count) return std::nullopt;
    const Seconds when = ends[count - free_ - 1];
    const auto ended = std::upper_bound(ends.begin(), ends.end(), when) - ends.begin();
    return HeadStart{when, free_ + static_cast<unsigned>(ended) - count};
  }

  std::vector<model::TicketView>::iterator start_waiting(std::vector<model::TicketView>::iterator ticket) {
    const model::TicketView started = *ticket;
    const auto next = queue_.tickets.erase(ticket);
    start(started, free_slots(started.count));
    return next;
  }

  void settle_whoever_fits() {
    promise_head();
    for (auto ticket = queue_.tickets.begin(); ticket != queue_.tickets.end() && free_ > 0;) {
      if (ticket->count > free_) {
        ++ticket;
        continue;
      }
      ticket = start_waiting(ticket);
    }
  }

  std::vector<model::TicketView>::iterator find(std::uint64_t number) {
    return std::lower_bound(queue_.tickets.begin(), queue_.tickets.end(), number,
                            [](const model::TicketView& ticket, std::uint64_t wanted) { return ticket.number < wanted; });
  }

  std::vector<unsigned> free_slots(unsigned count) const {
    std::vector<unsigned> slots;
    for (unsigned s = 0; slots.size() < count; ++s)
      if (queue_.slots[s].holders.empty()) slots.push_back(s);
    return slots;
  }

  void start(const model::TicketView& ticket, const std::vector<unsigned>& slots) {
    const std::size_t job = ticket.number - 1;
    starts_[job] = now_;
    model::SlotHolder holder;
    if (ticket.time) holder.until = at(now_ + *ticket.time);
    for (const unsigned s : slots) queue_.slots[s].holders.push_back(holder);
    free_ -= ticket.count;
    running_.push({now_ + jobs_[job].duration, slots});
  }

  void end_first() {
    for (const unsigned s : running_.top().slots) queue_.slots[s].holders.clear();
    free_ += static_cast<unsigned>(running_.top().slots.size());
    running_.pop();
  }

  const std::vector<PastJob>& jobs_;
  QueuePolicy policy_;
  model::QueueView queue_;
  std::vector<SlotState> states_;
  SlotSet all_;
  unsigned free_ = 0;
  Seconds now_{0};
  std::priority_queue<Running> running_;
  std::vector<Seconds> starts_;
  std::vector<std::optional<Seconds>> promises_;
};

}  // namespace

const char* to_string(QueuePolicy policy) {
  switch (policy) {
    case QueuePolicy::thole: return "thole";
    case QueuePolicy::fifo: return "fifo";
    case QueuePolicy::first_fit: return "first-fit";
    case QueuePolicy::easy: return "easy";
  }
  return "thole";
}

std::optional<QueuePolicy> parse_queue_policy(std::string_view text) {
  for (const QueuePolicy policy : {QueuePolicy::thole, QueuePolicy::fifo, QueuePolicy::first_fit, QueuePolicy::easy})
    if (text == to_string(policy)) return policy;
  return std::nullopt;
}

std::size_t later_than(const Played& played, const Played& other) {
  std::size_t later = 0;
  for (std::size_t i = 0; i < played.starts.size(); ++i) later += played.starts[i] > other.starts[i];
  return later;
}

Played play(std::vector<PastJob> jobs, unsigned gpus, QueuePolicy policy) {
  std::stable_sort(jobs.begin(), jobs.end(), [](const PastJob& a, const PastJob& b) { return a.arrival < b.arrival; });
  Play play(jobs, gpus, policy);
  play.run();
  return play.result();
}

}  // namespace thole::plan
