// Tasks whose lane is dead: what its record says of them becomes their end, and what lives of them is looked after until it has
// ended. The runner does so in the lane's place: `cancel`, `pause`, `continue` and the time limit go on to hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/crash_rules.hpp"
#include "app/queue_ports.hpp"

namespace thole::app {

class Orphans {
 public:
  explicit Orphans(const QueuePorts& ports) : ports_(ports) {}

  void of_queue(HashKey secret, std::uint32_t store) {
    secret_ = secret;
    store_ = store;
  }

  // A task that the store says runs in a lane that is dead; `record`: what that one has left, null where it is missing.
  void settle(const model::Task& task, model::LaneRecord* record);

  void look_after();
  std::optional<SteadyTime> next_look() const;
  std::vector<int> ends() const;                 // descriptors; one that is readable calls for a look

  bool empty() const { return orphans_.empty(); }
  bool contains(const model::Task& task) const;
  bool have_lane(unsigned number) const;

 private:
  struct Orphan {
    model::Task task;
    std::vector<Fd> processes{};
    Fd lock{};                                   // hangs up when nothing has the lane's lock; empty: nothing has it
    std::optional<bool> paused{};                // as we have told it; nothing: it has not been told yet
    std::optional<SteadyTime> limit{};           // when its time is over; nothing while it is paused
    Millis left{0};                              // of that time, while it is paused
    Millis patience{0};
    unsigned step = 0;                           // of its end: INT, TERM, KILL
    std::optional<SteadyTime> next_step{};
    bool over_time = false;                      // that is why it was ended
  };

  void go_on_counting(Orphan& orphan, model::LaneRecord* record);
  void pause(Orphan& orphan, bool paused);
  void next_step_against(Orphan& orphan);
  port::RunTrace trace_of(const model::Task& task);
  std::vector<Fd> living(const model::Task& task);
  void record_end(const model::Task& task, const Remains& remains, bool over_time = false);
  std::string mark_of(const model::Task& task) const {
    return task_mark(ports_.queue, secret_, task.job, task.index, task.runs);
  }

  const QueuePorts& ports_;
  HashKey secret_;                               // of the marks of the queue's tasks
  std::uint32_t store_ = 0;                      // which file they are in
  std::vector<Orphan> orphans_;
};

}  // namespace thole::app
