// What a dead lane has left, over the real store: lanes and processes are only told of.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/queue/orphans.hpp"
#include "unit/app/told_of_lanes.hpp"

namespace thole::host {

class OrphansTest : public LanesTest {
 protected:
  OrphansTest() { orphans->of_queue(store->secret(), 0); }

  // Its tasks run in a lane that has died; `phase` and `limit_clock`: what the lane has noted.
  std::vector<model::Task> left_running(const port::Submission& submission, model::TaskPhase phase,
                                        std::int32_t limit_clock = 0) {
    const model::JobId id = submit(submission);
    take(id, static_cast<unsigned>(submission.tasks));
    const std::vector<model::Task> tasks = store->running();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      model::LaneBay& bay = record.bays[i];
      bay.job = tasks[i].job;
      bay.task = tasks[i].index;
      bay.runs = tasks[i].runs;
      bay.limit_clock = limit_clock;
      bay.started_ms = std::chrono::duration_cast<Millis>(at(1).time_since_epoch()).count();
      bay.phase.store(phase);
    }
    return tasks;
  }
  model::Task one_left_running(const port::Submission& submission, model::TaskPhase phase, std::int32_t limit_clock = 0) {
    return left_running(submission, phase, limit_clock).at(0);
  }
  static port::Submission limited(std::uint64_t tasks = 1) {
    port::Submission submission = job(tasks);
    submission.terms.time = Seconds{3600};
    return submission;
  }
  std::shared_ptr<const port::SeenRecord> left() {
    port::SeenRecord::Memory memory(&record, [](const model::LaneRecord*) {});
    return std::make_shared<const port::SeenRecord>(std::move(memory), Fd(::dup(lanes.record_file)));
  }
  void settle(const model::Task& task) {
    settle(task, false);
  }
  void settle(const model::Task& task, bool is_copy) {
    orphans->take_up(task, {left(), is_copy});
    orphans->look_after();
  }
  // The runner has been killed, and this much later another one takes up what it has looked after.
  void by_another_runner(const model::Task& task, Millis later = Millis{0}) {
    record.endings[0].told_ms -= later.count();
    orphans.emplace(ports).of_queue(store->secret(), 0);
    settle(task);
  }
  bool runs_in_store() { return !store->running().empty(); }
  std::string reason(const model::Task& task) { return store->task(task.job, task.index)->reason; }

  std::optional<app::Orphans> orphans{ports};
};

}  // namespace thole::host
