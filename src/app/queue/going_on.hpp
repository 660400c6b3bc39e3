// That the work on a queue goes on: after a reboot, or when its runner was killed, whoever comes next starts a new one. For a
// command that waits for what the runner does, also while it waits.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "app/queue/job_actions.hpp"
#include "base/fd.hpp"

namespace thole::app {

// Whether a runner would have anything to do now or at a time that is known; has_queued: but for what runs.
bool has_queued(port::JobWork& jobs, WallTime now);
bool has_work(port::JobWork& jobs, WallTime now);

// Has a runner that lives, and does not see all that would be seen from here, relieved by one that does (QueueDoor::relieve).
bool relieve(Queue queue, bool awaited);

// Starts a runner where there is work and none lives, or one that does not see all that would be seen from here; waits until
// that one has left. One that lives looks again: whoever stored something may have failed to tell it. Throws
// Error(unavailable) when none can be started, or it does not leave.
void keep_going(Queue queue);

// How this works. A living runner is a descriptor that becomes readable when it has gone; so nobody looks for it again and
// again. What the files of a queue can no longer tell, because somebody has removed them, is seen by a look each half minute.
// A runner that ends at once is started again with growing pauses.
//
// Who sees one end waits for a moment before it starts the next: where the machine goes down its own end comes then.
class GoingOn {
 public:
  using Caution = std::function<void(const std::string&)>;   // is told, once, why no runner can be started
  // `of_command`: a runner that lives looks again, and is relieved where it does not see what one from here would; nobody is
  // waited for.
  GoingOn(Queue queue, Caution caution, bool of_command = false)
      : queue_(queue), caution_(std::move(caution)), of_command_(of_command) {}

  void look();                                   // before each sleep
  int fd() const { return end_.get(); }          // ends the sleep when readable; -1: there is nothing to watch
  SteadyTime next_look() const { return next_look_; }   // and so does this time
  bool is_in_doubt() const { return in_doubt_; } // one has just ended, and none was started in its place yet

 private:
  void start(SteadyTime now);
  void stir();

  Queue queue_;
  Caution caution_;
  bool of_command_;
  Fd end_;                                       // of the runner that lives
  SteadyTime next_look_{}, not_before_{};        // before that none is started
  Seconds pause_{0}, untold_{0};                 // the latter: between looks at what the runner has not told yet
  bool in_doubt_ = false;
  std::string told_;
};

}  // namespace thole::app
