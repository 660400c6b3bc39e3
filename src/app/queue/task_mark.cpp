#include <charconv>

#include "app/queue/ports.hpp"
#include "base/text.hpp"

namespace thole::app {

std::string task_mark(HashKey secret, model::JobId job, model::TaskIndex task, unsigned runs) {
  const std::string start = fmt::format("{}.{}.{}", job, task, runs);
  return fmt::format("{}.{:016x}@", start, keyed_hash(secret, start));
}

std::string task_mark(HashKey secret, const model::Task& task) { return task_mark(secret, task.job, task.index, task.runs); }

std::optional<std::pair<model::JobId, model::TaskIndex>> task_of_mark(HashKey secret, std::string_view word) {
  std::uint64_t numbers[3] = {};                 // job, task, run
  const char* at = word.data();
  const char* const end = at + word.size();
  for (std::uint64_t& number : numbers) {
    const auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc() || read.ptr == end || *read.ptr != '.') return std::nullopt;
    at = read.ptr + 1;
  }
  const auto task = static_cast<model::TaskIndex>(numbers[1]);
  if (!word.starts_with(task_mark(secret, numbers[0], task, static_cast<unsigned>(numbers[2])))) return std::nullopt;
  return std::pair(model::JobId{numbers[0]}, task);
}

}  // namespace thole::app
