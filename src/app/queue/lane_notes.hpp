// What a lane notes of its tasks in its record (model/lane_record.hpp). It goes by a copy of its own: what the disk has no room
// for is written again, and its tasks and their ends are none the worse for it as long as the lane lives.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "app/queue/trouble.hpp"
#include "base/time.hpp"
#include "model/lane_record.hpp"
#include "port/job_store.hpp"
#include "port/processes.hpp"
#include "port/seen_record.hpp"

namespace thole::app {

struct HowItEnded {
  int exit_code = -1, signal = -1;               // -1: not so
  unsigned flags = 0;                            // model::how_…
  std::uint64_t peak_memory_kib = 0;
};

class LaneNotes {
 public:
  explicit LaneNotes(const port::SeenRecord& record);

  void job(model::JobId job);
  bool passed_over(bool others_go_past);         // in the line; true when that is new
  bool claimed();                                // it has a task; true the first time
  // Taken, and not begun yet. False, with errno, where it could not be written: it must not begin.
  bool taken(const port::TakenTask& task, WallTime started);
  port::ProcessSpec::Note reached(unsigned bay) const;     // for the child
  void began(unsigned bay, pid_t pid, const model::ProcessIdentity& command);
  void not_begun(unsigned bay);
  void limit_clock(unsigned bay, std::int32_t clock);
  // Before it is told so: who looks after it when this lane is killed goes on from there. `rungs`: 1 INT, 2 TERM, 3 KILL.
  void told_to_end(unsigned bay, const std::string& mark, unsigned rungs, bool time_limit, SteadyTime now);
  // The command: what it has left may live on. As `ended`, but the phase stays.
  void command_ended(unsigned bay, const HowItEnded& how, WallTime ended);
  // Sealed: who finds it after this lane was killed knows that it is whole.
  void ended(unsigned bay, const HowItEnded& how, WallTime ended);
  void peak_gpu(unsigned bay, std::uint64_t mib);

  void write_again(const std::function<void(const std::string&)>& say);   // what could not be written
  SteadyTime next_try() const { return unwritten_.again(); }              // of that
  bool behind() const { return job_behind_ || !behind_.empty(); }
  int refusal() const { return refusal_; }       // errno, of what could not be written last

 private:
  template <class Field>
  bool put(const Field& own) { return put_bytes(&own, sizeof own); }
  bool put_bytes(const void* own, std::size_t size);
  bool put_job();
  bool put_end(unsigned bay, const HowItEnded& how, WallTime ended);
  bool put_command(unsigned bay);
  bool put_bay(unsigned bay);
  void written(unsigned bay, bool done);

  const port::SeenRecord& record_;
  std::unique_ptr<model::LaneRecord> own_;
  std::set<unsigned> behind_;                    // bays
  bool job_behind_ = false;
  int refusal_ = 0;
  Trouble unwritten_;
};

}  // namespace thole::app
