// The queue of an invocation: its directory, its store, the way to its processes; and the runner, which is this program too.
#pragma once

#include <memory>
#include <string>

#include "app/queue/ports.hpp"
#include "port/job_store.hpp"
#include "port/queue_door.hpp"

namespace thole::wire {

class Wire;

// Made by Wire::queue(). Several may use one queue at once, in any processes.
class Queue {
 public:
  Queue(Wire& wire, std::string directory, std::string unexpected);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  const std::string& directory() const { return directory_; }
  const std::string& unexpected() const { return unexpected_; }   // why it is not where it would be looked for; "" = it is
  port::JobStore& jobs();
  port::QueueDoor& door();

  // The runner's life; it returns when there is nothing left to do, or another one lives. `relieves`: that one is to leave.
  void run(bool relieves);

 private:
  struct Parts;
  app::QueuePorts ports();
  std::map<std::string, std::string> carry() const;
  bool say_in_log(const std::string& text);      // the runner's own

  Wire& wire_;
  std::string directory_, unexpected_;
  std::unique_ptr<Parts> parts_;
};

// In the first process of `thole __runner`, before anything else:
// go on in a process that is nobody's child and narrowed by nothing.
void become_runner_process();

}  // namespace thole::wire
