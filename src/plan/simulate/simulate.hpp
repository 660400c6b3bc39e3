// What would the rule of the claim queue have made of these jobs? Plays a trace, event by event, against the very code that
// decides for real (turn.hpp), against plain order, against whoever fits first, and against what batch systems call EASY.
//
// How this works. The play is a machine of equal GPUs with a queue of tickets. When a job ends, the head of the queue is asked
// (decide); when it cannot start it names those behind it that may, and they are asked, as waiters wake each other on a
// machine. When a job comes that must wait, the rule says which start it can promise, whatever the policy: so it shows
// which policy keeps a fair queue's promises and which lets somebody starve. Nothing depends on how long a play takes: there is
// no clock but the trace's.
//
// EASY backfill promises a start to the head of the queue alone: others start, in the order in which they came, if they end
// before that by what they declared, or take GPUs that the head will not need.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/time.hpp"

namespace thole::plan {

enum class QueuePolicy { thole, fifo, first_fit, easy };
const char* to_string(QueuePolicy policy);         // "thole", "fifo", "first-fit", "easy"
std::optional<QueuePolicy> parse_queue_policy(std::string_view text);

struct PastJob {
  Seconds arrival{0};                              // since some instant
  Seconds duration{0};
  unsigned gpus = 1;
  std::optional<Seconds> declared;                 // at least the duration; absent: nothing was declared
};

struct Waits {
  std::size_t jobs = 0;
  double mean_s = 0, median_s = 0, p95_s = 0;      // 0 where there are no jobs
};

struct Played {
  QueuePolicy policy = QueuePolicy::thole;
  Waits all, wide;                                 // wide: jobs of `wide_gpus` or more
  double use = 0;                                  // share of the GPU time from the first arrival to the last end
  std::size_t promised = 0;                        // jobs that had to wait and could be promised a start
  std::size_t late = 0;                            // of them, those that started later
  std::vector<Seconds> starts;                     // of each job, in the order of arrival
};

// How many jobs started later than in another play of the same jobs.
std::size_t later_than(const Played& played, const Played& other);

inline constexpr unsigned wide_gpus = 4;

// `jobs` in any order, none wider than `gpus`; `gpus` at most model::max_slots.
Played play(std::vector<PastJob> jobs, unsigned gpus, QueuePolicy policy);

}  // namespace thole::plan
