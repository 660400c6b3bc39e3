#include "host/claims/inherited_locks.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "base/fd.hpp"
#include "host/claims/kernel_locks.hpp"
#include "host/claims/layout.hpp"
#include "host/process/tree.hpp"

namespace thole::host {
namespace {

bool has_locks(pid_t pid, const std::string& directory, const std::vector<std::string>& keys) {
  return std::ranges::all_of(keys, [&](const std::string& key) {
    const Fd node = open_at(AT_FDCWD, (directory + "/" + gpu_node(key)).c_str(), O_PATH | O_NOFOLLOW);
    return node && keeps_lock(pid, node.get()).value_or(false);
  });
}

}  // namespace

bool has_locks_of(const std::string& directory, const std::vector<std::string>& keys) {
  return has_locks(::getpid(), directory, keys);
}

bool started_by_who_has_locks_of(const std::string& directory, const std::vector<std::string>& keys) {
  pid_t pid = ::getppid();
  for (auto process = read_process(pid); process && pid > 0; pid = process->parent, process = read_process(pid))
    if (has_locks(pid, directory, keys)) return true;
  return false;
}

}  // namespace thole::host
