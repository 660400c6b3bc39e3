#include "model/job.hpp"

#include <numeric>

namespace thole::model {

namespace {

constexpr const char* state_names[] = {"queued", "held", "running", "done", "failed", "lost", "cancelled", "skipped"};
constexpr const char* after_names[] = {"ok", "any", "fail"};

template <class Enum, std::size_t n>
std::optional<Enum> named(const char* const (&names)[n], std::string_view text) {
  for (std::size_t i = 0; i < n; ++i)
    if (text == names[i]) return static_cast<Enum>(i);
  return std::nullopt;
}

}  // namespace

const char* to_string(TaskState state) { return state_names[static_cast<std::size_t>(state)]; }
std::optional<TaskState> parse_task_state(std::string_view text) { return named<TaskState>(state_names, text); }
const char* to_string(After after) { return after_names[static_cast<std::size_t>(after)]; }
std::optional<After> parse_after(std::string_view text) { return named<After>(after_names, text); }

std::uint64_t TaskCounts::total() const { return std::accumulate(of_.begin(), of_.end(), std::uint64_t{0}); }

std::uint64_t TaskCounts::ended() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < task_states; ++i)
    if (model::ended(static_cast<TaskState>(i))) sum += of_[i];
  return sum;
}

TaskCounts& TaskCounts::operator+=(const TaskCounts& other) {
  for (std::size_t i = 0; i < task_states; ++i) of_[i] += other.of_[i];
  return *this;
}

// The store's query for candidates asks the same in SQL; a test keeps the two together.
std::optional<KeptBack> kept_back(const Job& job, WallTime now) {
  if (job.counts[TaskState::queued] == 0) return KeptBack::nothing_queued;
  if (job.terms.held) return KeptBack::held;
  if (job.unmet > 0) return KeptBack::dependency;
  if (job.terms.begin && *job.terms.begin > now) return KeptBack::begin;
  if (job.terms.at_most && job.counts[TaskState::running] >= *job.terms.at_most) return KeptBack::at_most;
  if (job.ready && *job.ready > now) return KeptBack::pause;
  return std::nullopt;
}

const char* to_string(KeptBack reason) {
  switch (reason) {
    case KeptBack::nothing_queued: return "nothing queued";
    case KeptBack::held: return "held";
    case KeptBack::dependency: return "dependency";
    case KeptBack::begin: return "begin";
    case KeptBack::at_most: return "at most";
    case KeptBack::pause: return "pause before the next try";
  }
  return "";
}

}  // namespace thole::model
