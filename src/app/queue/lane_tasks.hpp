// The tasks of a lane, in its bays: begun, told what is asked of them, and judged when they are over. How they ended is kept
// here until it is in the store (lane.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/claim/binding.hpp"
#include "app/claim/claim_variables.hpp"
#include "app/queue/lane_claim.hpp"
#include "app/queue/lane_notes.hpp"
#include "app/queue/ports.hpp"
#include "app/queue/task_clock.hpp"
#include "base/error.hpp"

namespace thole::app {

// For what a lane can do without: its tasks must not die of it.
template <class Work>
void carefully(const QueuePorts& ports, model::JobId job, Work work) {
  try {
    work();
  } catch (const Error& error) {
    ports.say(fmt::format("job {}: {}", job, error.full()));
  }
}

class LaneTasks {
 public:
  // `leave`: told why the lane is to take no more.
  LaneTasks(const QueuePorts& ports, const port::LaneSeat& seat, LaneClaim& claim,
            std::function<void(const std::string&)> leave)
      : ports_(ports), seat_(seat), site_(ports.site()), claim_(claim), leave_(std::move(leave)), notes_(seat.record) {}

  // All that is the same for every task of the job, once the claim is held.
  void prepare(const model::Job& job, model::JobSpec spec);

  LaneNotes& notes() { return notes_; }
  bool any() const { return !running_.empty(); }
  bool has_free_bay() const;
  bool was_in_want() const { return wants_; }    // of what a process needs
  std::vector<port::TaskEnd>& ends() { return ends_; }   // not yet in the store

  std::optional<port::TakeWish> wish();          // free bays, with the logs their tasks will write to
  void let_go_logs();                            // of free bays: one that has filled the disk may be removed
  void begin(const port::TakenTask& taken);
  bool sees_its_gpus();                          // by their numbers now; else the lane leaves
  void give_back(const port::TakenTask& taken);  // its command has never run, and will in another lane

  bool told_to_end() { return keeper_->told_to_end(); }
  void wait(std::span<const int> also, std::optional<SteadyTime> deadline);
  void look_at_pauses();
  void read_orders();                            // the store says what people asked of our tasks
  EndAsTold as_told(WallTime until) const;       // if it were extended so
  void extend(WallTime until);                   // what runs now ends then; what begins after it has the limit of the job
  void cancel_all();                             // also in the store: whatever becomes of this lane
  bool are_ending() const;                       // all that run: none can be given a new end

 private:
  struct Running {
    port::TakenTask task;
    port::LogUse log;
    WallTime started{};
    std::optional<Millis> time{};                // its limit
    TaskClock clock{};                           // by which that goes
  };

  static port::Selection selected(const Running& running);
  std::optional<WallTime> known_end() const;
  void declare_end();
  void pause(unsigned number, Running& running, bool paused);
  void cannot_pause(const Running& running);
  void say_rung(unsigned bay, unsigned rungs, bool time_limit);
  void say_command_end(const port::TaskOver& end);
  void could_not_begin(Running& running, const Error& error);
  port::ProcessSpec spec_for(const Running& running, std::vector<std::string> argv);
  std::string header_for(const Running& running, const std::vector<std::string>& argv) const;
  void over(const port::TaskOver& over);
  std::optional<std::uint64_t> peak_gpu_mib(const Running& running, WallTime ended);

  const QueuePorts& ports_;
  const port::LaneSeat& seat_;
  Site& site_;
  LaneClaim& claim_;
  const std::function<void(const std::string&)> leave_;
  LaneNotes notes_;
  model::JobSpec spec_;
  model::JobId job_ = 0;
  HashKey secret_;                               // of the marks of its tasks
  bool alone_ = true;
  std::optional<Binding> binding_;
  std::optional<Error> cannot_bind_;
  ListNow list_{site_};
  ClaimVariables variables_;
  std::vector<std::string> gpu_names_, gpu_keys_;
  bool one_task_at_a_time_ = false;              // on these GPUs, as long as we have them
  bool wants_ = false;
  std::unique_ptr<port::TaskKeeper> keeper_;
  std::map<unsigned, Running> running_;          // by bay
  std::vector<port::TaskEnd> ends_;
};

}  // namespace thole::app
