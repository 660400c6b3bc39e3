#include "app/queue/going_on.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "app/queue/job_files.hpp"
#include "base/error.hpp"
#include "base/stream.hpp"

namespace thole::app {

namespace {

constexpr Seconds between_looks_for_files{30};
constexpr Millis after_an_end{500};
constexpr Seconds first_rest{1}, longest_rest{30};   // between starts

// What is to be started yet finds these by name: what waits, and what runs and may run again. What the runner does not see it
// does not start again either.
std::vector<std::string> files_of_waiting(port::JobReader& jobs, const port::QueueDoor::UnseenCounts& unseen) {
  std::set<std::string> files;
  port::JobQuery query;
  query.unended_only = true;
  for (const model::Job& job : jobs.jobs(query)) {
    const bool waits = job.counts[model::TaskState::queued] + job.counts[model::TaskState::held] > 0;
    const auto not_seen = unseen.find(job.id);
    if (!waits && job.counts[model::TaskState::running] <= (not_seen == unseen.end() ? 0 : not_seen->second)) continue;
    const model::JobSpec spec = jobs.spec(job.id);
    if (!waits && spec.retry.times == 0) continue;
    files.insert(spec.directory);
    for (std::string& path : program_paths(spec)) files.insert(std::move(path));
  }
  return {files.begin(), files.end()};
}

}  // namespace

bool has_queued(port::JobWork& jobs, WallTime now) { return !jobs.candidates(now, 1).empty() || jobs.next_due(now); }

bool has_work(port::JobWork& jobs, WallTime now) { return has_queued(jobs, now) || !jobs.running().empty(); }

bool relieve(Queue queue, bool awaited) {
  return queue.door.relieve([&](const auto& unseen) { return files_of_waiting(queue.store, unseen); }, awaited);
}

void keep_going(Queue queue) {
  const bool lives = static_cast<bool>(queue.door.runner_end());
  if (lives) relieve(queue, true);
  if (lives || has_work(queue.store, queue.clock.wall())) queue.door.stir();
}

void GoingOn::look() {
  const SteadyTime now = queue_.clock.steady();
  const bool gone = end_ && is_readable(end_.get());
  if (gone) {
    end_.reset();
    in_doubt_ = true;
    next_look_ = now + after_an_end;
  }
  if (now < next_look_) return;
  in_doubt_ = false;
  end_ = queue_.door.runner_end();
  next_look_ = now + between_looks_for_files;
  if (end_ && of_command_) {
    try {
      untold_ = relieve(queue_, false) ? Seconds{0} : std::clamp(untold_ * 2, Seconds{1}, between_looks_for_files);
      if (untold_ > Seconds{0}) next_look_ = now + untold_;
    } catch (const Error&) {                     // the next look finds none, and tells why
    }
    end_ = queue_.door.runner_end();
    if (end_) stir();
  }
  if (!end_ && has_work(queue_.store, queue_.clock.wall())) start(now);
}

void GoingOn::start(SteadyTime now) {
  if (now < not_before_) {
    next_look_ = not_before_;
    return;
  }
  pause_ = now - not_before_ > longest_rest ? first_rest : std::clamp(pause_ * 2, first_rest, longest_rest);
  not_before_ = next_look_ = now + pause_;
  stir();
}

void GoingOn::stir() {
  try {
    queue_.door.stir();
  } catch (const Error& error) {
    if (told_ == error.full()) return;
    told_ = error.full();
    caution_(told_);
  }
}

}  // namespace thole::app
