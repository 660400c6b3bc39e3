#include "plan/job/lanes.hpp"

#include <algorithm>

namespace thole::plan {

namespace {


// Lanes that will take a task of this job and have not yet.
std::uint64_t pending(std::span<const LaneState> lanes, model::JobId job) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(lanes, [&](const LaneState& lane) { return lane.job == job && !lane.claimed; }));
}

bool is_older(const model::Job& a, const model::Job& b) {
  return a.terms.priority != b.terms.priority ? a.terms.priority > b.terms.priority : a.id < b.id;
}

bool can_use_another(const model::Job& job, std::span<const LaneState> lanes) {
  const std::uint64_t coming = pending(lanes, job.id);
  if (job.counts[model::TaskState::queued] <= coming) return false;
  return !job.terms.at_most || job.counts[model::TaskState::running] + coming < *job.terms.at_most;
}

class Planner {
 public:
  Planner(std::span<const model::Job> candidates, std::span<const LaneState> lanes, unsigned cpu_lanes, const Overlap& overlap)
      : candidates_(candidates), lanes_(lanes.begin(), lanes.end()), cpu_lanes_(cpu_lanes), overlap_(overlap) {}

  void consider_all() {
    dismiss();
    std::vector<const model::Job*> order;
    for (const model::Job& job : candidates_) order.push_back(&job);
    put_in_order(order);
    for (const model::Job* job : order) consider(*job);
  }

  LanePlan plan;

 private:
  void consider(const model::Job& job) {
    if (job.gpus == 0) return consider_cpus(job);
    if (is_passed_over(job.request_class)) return;
    const bool behind = std::ranges::any_of(served_, [&](std::uint64_t other) { return overlap_(other, job.request_class); });
    served_.push_back(job.request_class);        // whoever comes later stands behind it
    if (!behind && can_use_another(job, lanes_)) consider_gpus(job);
  }

  // Waiting lanes whose class has nothing more to start.
  void dismiss() {
    for (LaneState& lane : lanes_) {
      if (lane.claimed || lane.leaving) continue;
      if (std::ranges::any_of(candidates_, [&](const model::Job& job) { return job.request_class == lane.request_class; }))
        continue;
      plan.give_way.push_back(lane.number);
      lane.leaving = true;
    }
  }

  void consider_cpus(const model::Job& job) {
    const auto busy = [&] { return std::ranges::count_if(lanes_, [](const LaneState& lane) { return lane.gpus == 0; }); };
    while (static_cast<unsigned>(busy()) < cpu_lanes_ && can_use_another(job, lanes_)) start(job);
  }

  // Does a lane of this class stand in line without being in the way of those behind it?
  bool is_passed_over(std::uint64_t request_class) {
    if (std::ranges::find(passed_over_, request_class) != passed_over_.end()) return true;
    if (passed_over_.size() == most_passed_over || std::ranges::none_of(lanes_, [&](const LaneState& lane) {
          return lane.request_class == request_class && lane.passed_over && !lane.claimed && !lane.leaving;
        }))
      return false;
    passed_over_.push_back(request_class);
    return true;
  }

  void consider_gpus(const model::Job& job) {
    bool someone_waits = false;
    for (LaneState& lane : lanes_) {
      if (lane.gpus == 0 || lane.claimed || !overlap_(lane.request_class, job.request_class)) continue;
      if (std::ranges::find(passed_over_, lane.request_class) != passed_over_.end()) continue;
      someone_waits = true;
      if (lane.request_class == job.request_class || lane.leaving || !calls_back(job, lane)) continue;
      plan.give_way.push_back(lane.number);
      lane.leaving = true;
    }
    make_room(job);
    if (!someone_waits) start(job);
  }

  // Not because it is shorter alone.
  bool calls_back(const model::Job& job, const LaneState& waiting) const {
    return std::ranges::none_of(candidates_, [&](const model::Job& other) {
      return other.request_class == waiting.request_class && is_older(other, job);
    });
  }

  // As many lanes of lower priority end after their task as have the GPUs this job takes.
  void make_room(const model::Job& job) {
    unsigned coming = 0;
    for (const LaneState& lane : lanes_)
      if (lane.claimed && lane.leaving && overlap_(lane.request_class, job.request_class)) coming += lane.gpus;
    for (LaneState& lane : lanes_) {
      if (coming >= job.gpus) return;
      if (!lane.claimed || lane.leaving || lane.gpus == 0 || lane.priority >= job.terms.priority) continue;
      if (!overlap_(lane.request_class, job.request_class)) continue;
      plan.give_way.push_back(lane.number);
      lane.leaving = true;
      coming += lane.gpus;
    }
  }

  void start(const model::Job& job) {
    plan.start.push_back(job.id);
    lanes_.push_back(waiting_lane(0, job));
  }

  std::span<const model::Job> candidates_;
  std::vector<LaneState> lanes_;
  unsigned cpu_lanes_;
  const Overlap& overlap_;
  std::vector<std::uint64_t> served_;            // classes of better candidates
  std::vector<std::uint64_t> passed_over_;       // those of them that hold up nobody
};

}  // namespace

LaneState waiting_lane(unsigned number, const model::Job& job) {
  return {.number = number,
          .job = job.id,
          .request_class = job.request_class,
          .priority = job.terms.priority,
          .gpus = job.gpus};
}

void put_in_order(std::vector<const model::Job*>& jobs) {
  std::ranges::sort(jobs, [](const model::Job* a, const model::Job* b) { return is_older(*a, *b); });
  const auto through = [](const model::Job* job) {
    return job->submitted + std::min(*job->terms.time, model::longest_declared);
  };
  for (auto first = jobs.begin(); first != jobs.end();) {
    const auto last = std::find_if(std::next(first), jobs.end(), [&](const model::Job* job) {
      return job->terms.priority != (*first)->terms.priority || !job->terms.time;
    });
    if ((*first)->terms.time)
      std::stable_sort(first, last, [&](const model::Job* a, const model::Job* b) { return through(a) < through(b); });
    first = (*first)->terms.time ? last : std::next(first);
  }
}

LanePlan plan_lanes(std::span<const model::Job> candidates, std::span<const LaneState> lanes, unsigned cpu_lanes,
                    const Overlap& overlap) {
  Planner planner(candidates, lanes, cpu_lanes, overlap);
  planner.consider_all();
  return std::move(planner.plan);
}

}  // namespace thole::plan
