#include "host/process/helpers.hpp"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>

namespace thole::host {
namespace {

std::array<std::atomic<pid_t>, 64> helpers;   // 0: free. More at once would be taken for a command's: no process has as many
std::atomic<int> starting;

void replace_helper(pid_t old, pid_t by) {
  for (auto& helper : helpers) {
    pid_t expected = old;
    if (helper.compare_exchange_strong(expected, by)) return;
  }
}

}  // namespace

StartingHelper::StartingHelper() { ++starting; }
StartingHelper::~StartingHelper() { --starting; }
void StartingHelper::started(pid_t pid) { replace_helper(0, pid); }

void helper_ended(pid_t pid) {
  if (pid > 0) replace_helper(pid, 0);
}

bool is_helper(pid_t pid) {
  return pid > 0 && std::ranges::any_of(helpers, [pid](const auto& helper) { return helper.load() == pid; });
}

bool is_helper_starting() { return starting > 0; }

void kill_child(pid_t pid) {
  siginfo_t any{};
  if (::waitid(P_PID, static_cast<id_t>(pid), &any, WEXITED | WNOHANG | WNOWAIT) == 0) ::kill(pid, SIGKILL);
}

}  // namespace thole::host
