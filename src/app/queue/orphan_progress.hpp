// How far an orphan is: the time that it has had, and the steps of its end. Its lane's record says so, too, for the next
// runner, which goes on there.
#pragma once

#include <optional>
#include <vector>

#include "app/queue/orphan.hpp"
#include "app/queue/ports.hpp"
#include "app/queue/trouble.hpp"

namespace thole::app {

// INT, TERM, KILL.
inline constexpr model::Signal end_steps[] = {model::Signal::interrupt, model::Signal::terminate, model::Signal::kill};
inline constexpr unsigned last_step = 2;
Millis after_step(unsigned steps, Millis patience);

class OrphanProgress {
 public:
  explicit OrphanProgress(const QueuePorts& ports) : ports_(ports) {}
  void of_queue(HashKey secret) { secret_ = secret; }

  void take_up(Orphan& orphan) const;            // throws what the store throws
  void pause(Orphan& orphan, bool paused) const;   // its time stands still, or goes on
  void note(Orphan& orphan) const;

  void note_again(std::vector<Orphan>& orphans);   // what a full disk has not taken
  std::optional<SteadyTime> next_try() const { return unwritten_.is_on() ? std::optional(unwritten_.again()) : std::nullopt; }

 private:
  void go_on_counting(Orphan& orphan) const;
  void go_on_ending(Orphan& orphan) const;
  Millis since_start(const Orphan& orphan, const model::LaneBay& bay) const;

  const QueuePorts& ports_;
  HashKey secret_;                               // of the marks of the queue's tasks
  Trouble unwritten_;
};

}  // namespace thole::app
