// What people do to jobs that are in the queue: end, hold, pause, retry, edit them; wait for them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/job.hpp"
#include "port/clock.hpp"
#include "port/job_store.hpp"
#include "port/queue_door.hpp"

namespace thole::app {

struct Queue {
  port::JobStore& store;
  port::QueueDoor& door;
  const port::Clock& clock;
};

// Each of these changes the store, and it is kept when it returns; then the lanes of running tasks and the runner are told. Who
// could not be told is a sentence in the answer, "" where all were: the change is no less made.
using Caution = std::string;

struct Alteration {
  std::vector<port::Altered> jobs;
  Caution caution;
};
Alteration alter(Queue queue, const std::vector<port::Selection>& which, port::Verb verb);

// Of what is waited for, in a copy of a queue: what runs in the original; "" where that is nothing.
Caution of_originals(Queue queue, const std::vector<port::Selection>& which);

// cancel, of what the queue's runner does not see by the word of who asks: it is not looked whether it has ended. Throws
// Error(usage), and nothing is changed, where one of these tasks is seen, or something has its lane's lock.
Alteration give_up(Queue queue, const std::vector<port::Selection>& which);

// Throws Error(usage) where nothing is left to be changed: every task of the job has started, or the job has ended. Of one
// that was skipped what it waits for can be changed, and the other terms with that.
Caution edit(Queue queue, const std::vector<model::Job>& jobs, const port::TermsChange& change);

Caution drain(Queue queue, bool on);

class GoingOn;

// How a wait for jobs ended.
struct Awaited {
  enum class Why { ended, timed_out, interrupted };
  Why why = Why::ended;
  std::vector<model::Job> jobs;                  // those waited for, as they are now
};

struct AwaitOptions {
  bool any = false;                              // until one of them has ended
  std::optional<model::JobId> inside;            // the job that waits: one of no selection
  std::optional<Millis> timeout;
  std::vector<int> cancel;                       // descriptors that end the wait when readable
  std::function<void()> before_sleep = [] {};
  GoingOn* going_on = nullptr;                   // sees to it that there is somebody to wait for
};

// Until the selected jobs, or the selected tasks of them, have ended; of no selection: until nothing else is queued or runs.
// Sleeps until the store changes.
Awaited await(port::JobReader& jobs, const port::Clock& clock, const std::vector<port::Selection>& which,
              const AwaitOptions& options);

// Whether every one of these tasks has ended.
bool has_ended(port::JobReader& jobs, const model::Job& job,
               const std::optional<std::pair<model::TaskIndex, model::TaskIndex>>& tasks);

}  // namespace thole::app
