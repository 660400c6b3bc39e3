#include "app/queue_ports.hpp"
#include "base/text.hpp"

namespace thole::app {

std::string task_mark(HashKey secret, model::JobId job, model::TaskIndex task, unsigned runs) {
  const std::string start = fmt::format("{}.{}.{}", job, task, runs);
  return fmt::format("{}.{:016x}@", start, keyed_hash(secret, start));
}

std::string task_mark(HashKey secret, const model::Task& task) { return task_mark(secret, task.job, task.index, task.runs); }

}  // namespace thole::app
