#include "host/queue/runners_children.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "host/process/child_end.hpp"
#include "host/process/helpers.hpp"
#include "host/process/signal_process.hpp"
#include "host/process/tree.hpp"
#include "host/queue/task_processes.hpp"

namespace thole::host {

port::Children::Child RunnersChildren::look(pid_t pid) {
  if (pid <= 0) return {};
  const auto end = ended_child(P_PID, pid);
  if (end) return {true, end->how};
  return {errno != ECHILD, std::nullopt};
}

port::Children::Child RunnersChildren::look_at_command(pid_t pid, const model::ProcessIdentity& noted) {
  const auto seen = pid > 0 ? read_process(pid) : std::nullopt;
  const bool is_known = pid > 0 && noted.start_ticks != 0;
  const bool is_others = !seen || seen->parent != ::getpid();
  const auto is_over = [&] { return !began_at(*seen, noted.start_ticks) || (is_others && is_ended_state(seen->state)); };
  if (is_known && (seen ? is_over() : !is_any_process(pid))) return {false, std::nullopt, true};
  if (is_others) return {};
  const bool same = noted.start_ticks != 0 ? began_at(*seen, noted.start_ticks) : seen->name != lane_process_name;
  return same ? look(pid) : Child{};
}

void RunnersChildren::bury(pid_t pid) {
  if (pid > 0) bury_child(pid);
}

// A kernel that lists no children leaves them to the end of this process, or to who is asked for.
void RunnersChildren::bury_others(std::span<const pid_t> asked_for) {
  std::set<pid_t> found;
  for (const pid_t child : listed_children().value_or(std::vector<pid_t>())) {
    if (is_helper(child) || std::ranges::find(asked_for, child) != asked_for.end() || !ended_child(P_PID, child)) continue;
    if (found_.contains(child)) bury_child(child);
    else found.insert(child);
  }
  found_ = std::move(found);
}

}  // namespace thole::host
