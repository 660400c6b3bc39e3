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
  if (pid <= 0) return {};
  const bool is_known = noted.start_ticks != 0;
  const auto gone_if = [&](bool is_over) { return Child{false, std::nullopt, is_known && is_over}; };
  const auto seen = read_process(pid);
  if (!seen) return gone_if(!is_any_process(pid));
  if (is_known ? !began_at(*seen, noted.start_ticks) : seen->name == lane_process_name) return gone_if(true);
  if (seen->parent != ::getpid()) return gone_if(is_ended_state(seen->state));
  return look(pid);
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
