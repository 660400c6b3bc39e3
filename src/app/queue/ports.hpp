// What the runner and its lanes work with: the machine, the store of jobs, and each other.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "app/claim/acquire.hpp"
#include "app/claim/binding.hpp"
#include "app/claim/door.hpp"
#include "base/keyed_hash.hpp"
#include "model/boot.hpp"
#include "port/children.hpp"
#include "port/job_store.hpp"
#include "port/lanes.hpp"
#include "port/queue_door.hpp"
#include "port/task_keeper.hpp"
#include "port/task_logs.hpp"

namespace thole::app {

struct QueuePorts {
  std::function<Site&()> site;                   // made when first asked for: a queue may be empty and its driver slow
  port::JobStore& jobs;
  port::Lanes& lanes;
  port::Children& children;
  port::QueueDoor& door;
  port::TaskLogs& logs;
  std::function<std::unique_ptr<port::TaskKeeper>()> keeper;   // made in the lane's own process
  BindSite bind;
  DoorMaker make_door;                           // of the lanes' claims; empty: they have none
  const port::Clock& clock;
  std::map<std::string, std::string> carry;      // variables by which a job's own thole finds the same machine and queue
  std::string queue;                             // the directory of the queue, said by its tasks
  std::string host;                              // the machine's name, for people
  model::BootId boot;
  std::function<void(const std::string&)> say;   // into the runner's own log
};

// The mark of one start of a task, with which the word begins in its environment and that of all it starts (THOLE_TASK). It
// ends what bears it and keeps a task running, so it can be known only from the queue's own file (`secret`) or from this very
// start of the task. Behind it are the number of the lane, which no copy of the queue has, and for people the queue's path.
std::string task_mark(HashKey secret, model::JobId job, model::TaskIndex task, unsigned runs);
std::string task_mark(HashKey secret, const model::Task& task);

// Of which job and task a word of THOLE_TASK is, where it is of the queue with this secret.
std::optional<std::pair<model::JobId, model::TaskIndex>> task_of_mark(HashKey secret, std::string_view word);

}  // namespace thole::app
