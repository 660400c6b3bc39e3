// Several users' queues on one machine: each user's runner plans lanes (plan::plan_lanes), the lanes stand in the one claim
// queue (plan::decide) and give their claim back after a task when another user waits for it, as app/queue/lane.cpp does.
// Random submissions and task ends; what is promised to people about order and turns is checked at every start.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "plan/job/lanes.hpp"
#include "support/queues.hpp"

namespace thole::test {
namespace {

struct Step {
  bool submit;                                 // else a task ends
  std::uint32_t user, tasks, gpus, which;
  int priority;
  std::uint32_t leave = 0;                     // GPUs that stay free for others when it starts
};

class Users {
 public:
  Users(unsigned slots, unsigned users, unsigned widest) : users_(users), widest_(std::min(widest, slots)) {
    for (unsigned s = 0; s < slots; ++s) {
      queue_.slots.push_back({fmt::format("GPU-{}", s), {}});
      all_.set(s);
    }
    states_.assign(slots, {true, 40960, 0});
  }

  void run(const std::vector<Step>& steps) {
    for (const Step& step : steps) {
      if (step.submit) submit(step);
      else if (!claimed().empty()) end_of_task(claimed()[step.which % claimed().size()]);
      settle();
      for (unsigned user = 0; user < users_; ++user) one_waits_at_most(user);
    }
  }

  unsigned waited_for_others = 0;              // that the play was worth something

 private:
  struct Lane {
    unsigned user = 0;
    plan::LaneState state;
    model::JobId serves = 0;                   // the job of its present task
    std::vector<unsigned> slots;
  };

  void submit(const Step& step) {
    model::Job job;
    job.id = next_job_++;
    job.gpus = 1 + step.gpus % widest_;
    const std::uint32_t leave = step.leave % (static_cast<std::uint32_t>(states_.size()) - job.gpus + 1);
    job.request_class = job.gpus + 100 * leave;
    job.terms.priority = step.priority;
    job.counts[model::TaskState::queued] = job.tasks = 1 + step.tasks;
    jobs_[step.user % users_].push_back(job);
    ends_until_[job.id] = 0;
  }

  std::vector<unsigned> claimed() const {
    std::vector<unsigned> numbers;
    for (const auto& [number, lane] : lanes_)
      if (lane.state.claimed) numbers.push_back(number);
    return numbers;
  }

  // By priority and then age, as the store lists them.
  std::vector<model::Job> candidates(unsigned user) const {
    std::vector<model::Job> waiting;
    for (const model::Job& job : jobs_.at(user))
      if (job.counts[model::TaskState::queued] > 0) waiting.push_back(job);
    std::stable_sort(waiting.begin(), waiting.end(),
                     [](const auto& a, const auto& b) { return a.terms.priority > b.terms.priority; });
    return waiting;
  }

  model::Job& job(unsigned user, model::JobId id) {
    return *std::find_if(jobs_[user].begin(), jobs_[user].end(), [&](const auto& job) { return job.id == id; });
  }

  bool somebody_else_waits(unsigned user) const {
    return std::any_of(queue_.tickets.begin(), queue_.tickets.end(), [&](const auto& ticket) { return ticket.uid != user; });
  }

  // The lane takes the best task of its class; false when there is none.
  bool take_task(Lane& lane) {
    for (const model::Job& best : candidates(lane.user)) {
      if (best.request_class != lane.state.request_class) continue;
      model::Job& taken = job(lane.user, best.id);
      --taken.counts[model::TaskState::queued];
      ++taken.counts[model::TaskState::running];
      lane.serves = taken.id;
      lane.state.priority = taken.terms.priority;
      started(taken);
      return true;
    }
    return false;
  }

  // With jobs of one GPU each: nobody waits for more task ends than there are other users, and one.
  void started(const model::Job& job) {
    const auto waited = ends_until_.find(job.id);
    if (waited == ends_until_.end()) return;
    if (widest_ == 1 && only_job(job.id)) RC_ASSERT(waited->second <= users_);
    waited_for_others += waited->second > 0;
    ends_until_.erase(waited);
  }

  bool only_job(model::JobId id) const {
    for (const auto& [user, jobs] : jobs_)
      for (const model::Job& job : jobs)
        if (job.id == id) return jobs.size() == 1;
    return false;
  }

  void end_of_task(unsigned number) {
    Lane& lane = lanes_.at(number);
    for (auto& [waiting, ends] : ends_until_) ++ends;
    --job(lane.user, lane.serves).counts[model::TaskState::running];
    if (!lane.state.leaving && !somebody_else_waits(lane.user) && take_task(lane)) return;
    for (const unsigned s : lane.slots) queue_.slots[s].holders.clear();
    lanes_.erase(number);
  }

  void settle() {
    for (bool again = true; again;) {
      again = false;
      for (const model::TicketView& ticket : std::vector(queue_.tickets)) again = step(ticket) || again;
      for (unsigned user = 0; user < users_; ++user) again = plan_user(user) || again;
    }
  }

  bool step(const model::TicketView& ticket) {
    const auto decision = plan::decide(queue_, ticket.number, ticket, states_, lowest(ticket.count), noon);
    const auto* take = std::get_if<model::Take>(&decision);
    if (const auto* wait = std::get_if<model::Wait>(&decision)) return noted(lanes_.at(lane_of_.at(ticket.number)), *wait);
    if (!take) return false;
    std::erase_if(queue_.tickets, [&](const auto& other) { return other.number == ticket.number; });
    const unsigned number = lane_of_.at(ticket.number);
    Lane& lane = lanes_.at(number);
    lane.state.claimed = true;
    lane.slots = take->slots;
    model::SlotHolder holder;
    holder.uid = lane.user;
    for (const unsigned s : lane.slots) queue_.slots[s].holders.push_back(holder);
    if (take_task(lane)) return true;
    for (const unsigned s : lane.slots) queue_.slots[s].holders.clear();
    lanes_.erase(number);
    return true;
  }

  // The lane tells its runner where it stands; false where that is no news.
  static bool noted(Lane& lane, const model::Wait& wait) {
    return std::exchange(lane.state.passed_over, wait.passed_over) != wait.passed_over;
  }

  bool plan_user(unsigned user) {
    std::vector<plan::LaneState> states;
    for (const auto& [number, lane] : lanes_)
      if (lane.user == user) states.push_back(lane.state);
    const std::vector<model::Job> waiting = candidates(user);
    const plan::LanePlan plan = plan::plan_lanes(waiting, states, 1, [](std::uint64_t, std::uint64_t) { return true; });
    for (const unsigned number : plan.give_way) give_way(number);
    for (const model::JobId id : plan.start) start_lane(user, job(user, id), waiting);
    return !plan.give_way.empty() || !plan.start.empty();
  }

  void give_way(unsigned number) {
    Lane& lane = lanes_.at(number);
    lane.state.leaving = true;
    if (lane.state.claimed) return;            // after its task
    std::erase_if(queue_.tickets, [&](const auto& ticket) { return lane_of_.at(ticket.number) == number; });
    lanes_.erase(number);
  }

  void start_lane(unsigned user, const model::Job& job, const std::vector<model::Job>& waiting) {
    const auto first = std::find_if(waiting.begin(), waiting.end(), [&](const auto& other) { return !goes_past(user, other); });
    RC_ASSERT(first->terms.priority == job.terms.priority);   // a user's jobs go by priority …
    RC_ASSERT(first->id == job.id);                           // … then order
    const unsigned number = next_lane_++;
    lanes_[number] = {user, {number, job.id, job.request_class, job.terms.priority, job.gpus, false, false}, 0, {}};
    model::TicketView ticket;
    ticket.number = next_ticket_++;
    ticket.uid = user;
    ticket.eligible = all_;
    ticket.count = job.gpus;
    ticket.leave = static_cast<unsigned>(job.request_class / 100);
    lane_of_[ticket.number] = number;
    queue_.tickets.push_back(ticket);
  }

  // Is this job one that stands in line, and holds up nobody there?
  bool goes_past(unsigned user, const model::Job& job) const {
    return std::any_of(lanes_.begin(), lanes_.end(), [&](const auto& numbered) {
      const plan::LaneState& lane = numbered.second.state;
      return numbered.second.user == user && lane.request_class == job.request_class && lane.passed_over && !lane.claimed;
    });
  }

  // However many jobs somebody has: one ticket in the line, but for those that give way. And who has a job that does not has
  // that ticket, or nothing to start.
  void one_waits_at_most(unsigned user) const {
    const auto own = [&](const auto& ticket) { return ticket.uid == user && ticket.leave == 0; };
    const auto in_line = std::count_if(queue_.tickets.begin(), queue_.tickets.end(), own);
    RC_ASSERT(in_line <= 1);
    const std::vector<model::Job> waiting = candidates(user);
    if (std::any_of(waiting.begin(), waiting.end(), [](const auto& job) { return job.request_class < 100; }))
      RC_ASSERT(in_line == 1);
    one_of_a_kind(user);
  }

  void one_of_a_kind(unsigned user) const {
    std::map<std::uint64_t, unsigned> waiting;
    for (const auto& [number, lane] : lanes_)
      if (lane.user == user && !lane.state.claimed) RC_ASSERT(++waiting[lane.state.request_class] == 1);
  }

  unsigned users_, widest_;
  model::QueueView queue_;
  std::vector<plan::SlotState> states_;
  model::SlotSet all_;
  std::map<unsigned, std::vector<model::Job>> jobs_ = {{0, {}}, {1, {}}, {2, {}}, {3, {}}};
  std::map<unsigned, Lane> lanes_;
  std::map<std::uint64_t, unsigned> lane_of_;  // by ticket
  std::map<model::JobId, unsigned> ends_until_;   // task ends since the submission of a job that has not started
  model::JobId next_job_ = 1;
  unsigned next_lane_ = 1;
  std::uint64_t next_ticket_ = 1;
};

std::vector<Step> any_steps(bool leaving = false) {
  const auto number = rc::gen::arbitrary<std::uint32_t>();
  const auto step = rc::gen::apply(
      [=](std::uint32_t kind, std::uint32_t user, std::uint32_t tasks, std::uint32_t gpus, std::uint32_t which, int priority) {
        const std::uint32_t leave = leaving && which % 3 == 0 ? which / 3 : 0;
        return Step{kind % 5 == 0, user, tasks % (tasks % 3 == 0 ? 500 : 3), gpus, which, priority, leave};
      }, number, number, number, number, number, rc::gen::inRange(-1, 3));
  return *rc::gen::scale(2.0, rc::gen::container<std::vector<Step>>(step));
}

RC_GTEST_PROP(FairnessProperty, ASweepOfManyTasksTakesTurnsWithEverybodyElse, ()) {
  Users users(*rc::gen::inRange(1u, 7u), *rc::gen::inRange(2u, 5u), 1);
  users.run(any_steps());
  RC_TAG(std::string(users.waited_for_others ? "some waited" : "nobody waited"));
}

RC_GTEST_PROP(FairnessProperty, AUsersJobsGoByPriorityThenOrderWithOneTicketInTheLine, ()) {
  Users users(*rc::gen::inRange(1u, 7u), *rc::gen::inRange(1u, 4u), 4);
  users.run(any_steps());
}

RC_GTEST_PROP(FairnessProperty, JobsThatLeaveSomeToOthersHoldUpNobodyOfTheirOwnQueue, ()) {
  Users users(*rc::gen::inRange(1u, 7u), *rc::gen::inRange(1u, 4u), 4);
  users.run(any_steps(true));
}

// The rule in one picture: 500 tasks hold everything, one job of somebody else comes.
TEST(Fairness, AnothersSingleJobStartsAtTheSecondTaskEndAtTheLatest) {
  for (unsigned slots = 1; slots <= 6; ++slots) {
    Users users(slots, 2, 1);
    std::vector<Step> steps{{true, 0, 499, 0, 0, 0}, {true, 1, 0, 0, 0, 0}};
    for (unsigned ends = 0; ends < 20; ++ends) steps.push_back({false, 0, 0, 0, ends * 7, 0});
    users.run(steps);                          // started() holds it to two
    EXPECT_EQ(users.waited_for_others, 1u) << slots;
  }
}

}  // namespace
}  // namespace thole::test
