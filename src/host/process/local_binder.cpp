// How binding a running process works. A thread takes the mask of the thread that made it. So the thread list is gone through
// again and again until a pass changes no mask: then every thread that was there at the start of that pass was bound already,
// and so is whatever they made since. A process that makes threads all the time does not keep us: those come bound.
#include "host/process/local_binder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/text.hpp"
#include "host/process/cpu_mask.hpp"
#include "host/process/memory_file.hpp"
#include "host/process/memory_policy.hpp"
#include "host/process/tree.hpp"

namespace thole::host {

namespace {

[[noreturn]] void throw_gone(pid_t pid) { throw Error(ErrorCode::usage, "no such process").about(std::to_string(pid)); }

[[noreturn]] void throw_refused(pid_t pid, const model::CpuSet& cpus, int reason) {
  Error error =
      Error(ErrorCode::unavailable, fmt::format("cannot bind process {} to CPUs {}", pid, cpus.to_string())).because(reason);
  if (reason == EPERM) throw std::move(error).hint("as its owner, or with CAP_SYS_NICE: sudo thole bind …");
  if (reason == EINVAL)
    throw std::move(error).hint(fmt::format("its cpuset has none of these CPUs: grep Cpus_allowed_list /proc/{}/status", pid));
  throw error;
}

}  // namespace

model::CpuSet LocalBinder::allowed_cpus() {
  auto cpus = affinity_of(0);
  if (!cpus) throw Error(ErrorCode::internal, "cannot read the CPU mask").because(errno);
  return *std::move(cpus);
}

port::MemoryAccess LocalBinder::memory() { return memory_access(); }

std::map<std::string, std::string> LocalBinder::environment_of(pid_t pid) {
  if (threads_of(pid).empty()) throw_gone(pid);
  std::map<std::string, std::string> variables;
  const MemoryText environment = MemoryFile(fmt::format("/proc/{}/environ", pid), MemoryFile::For::decide).read(8u << 20);
  if (environment.why == ETIMEDOUT)
    throw Error(ErrorCode::unavailable,
                "cannot read the environment of a process: its memory is locked, as by a file system that does not answer")
        .about(std::to_string(pid))
        .hint("--on GPU,…");
  for (std::string_view word : split(environment.text, '\0')) {
    const std::size_t equals = word.find('=');
    if (equals != std::string_view::npos) variables.emplace(word.substr(0, equals), word.substr(equals + 1));
  }
  return variables;
}

port::BoundProcess LocalBinder::bind_process(pid_t pid, const model::CpuSet& cpus) {
  for (bool changed = true; changed;) {
    changed = false;
    const std::vector<pid_t> threads = threads_of(pid);
    if (threads.empty()) throw_gone(pid);
    for (pid_t thread : threads) {
      const auto before = affinity_of(thread);
      if (!set_affinity(thread, cpus) && errno != ESRCH) throw_refused(pid, cpus, errno);
      if (affinity_of(thread) != before) changed = true;
    }
  }
  port::BoundProcess result;
  for (pid_t thread : threads_of(pid)) {
    auto mask = affinity_of(thread);
    if (!mask) continue;                         // it has ended
    ++result.threads;
    auto same = std::find_if(result.masks.begin(), result.masks.end(), [&](const auto& known) { return known.first == *mask; });
    if (same == result.masks.end()) result.masks.emplace_back(*std::move(mask), 1);
    else ++same->second;
  }
  if (result.threads == 0) throw_gone(pid);
  return result;
}

}  // namespace thole::host
