// Port: the files that tasks write to, as their lane sees them. Commands find them by the store and QueueDoor::log_path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.hpp"
#include "model/job.hpp"

namespace thole::port {

// Who writes.
struct LogUse {
  model::JobId job = 0;
  bool alone = false;                            // the job has this task only
  unsigned lane = 0, bay = 0;                    // tasks of one bay write one after the other, into one file
  std::optional<std::uint64_t> limit_mib;        // the middle of what goes beyond is dropped
};

// Logs that grow beyond their limit.
class LogGrowth {
 public:
  virtual ~LogGrowth() = default;

  // Logs that grow beyond their limit: look at them (trim) when this descriptor is readable, or at the time trim() gives.
  virtual int growth() const = 0;
  virtual std::optional<SteadyTime> trim(SteadyTime now) = 0;
};

class TaskLogs : public LogGrowth {
 public:
  // Where the next task of this bay will write (TakeWish::Bay). An empty name: no log can be had, `problem` says why; its
  // task runs without one rather than not at all.
  struct Spot { std::string name; std::uint64_t offset = 0; std::string problem; };
  virtual Spot next(const LogUse& use) = 0;

  // Writes the header there and gives the descriptor for the task's output (append mode; it stays ours); -1 without a log.
  virtual int begin(const LogUse& use, std::string_view header) = 0;

  // Writes the footer; the length of it all, holes included.
  virtual std::optional<std::uint64_t> end(const LogUse& use, std::string_view footer) = 0;

  // Nothing is to be written for the task of this bay for some time: what somebody removes is to leave its room to others.
  virtual void let_go(unsigned bay) = 0;

  // The last bytes that the task has written, for signs in them.
  virtual std::string tail(const LogUse& use, std::size_t bytes) = 0;
};

}  // namespace thole::port
