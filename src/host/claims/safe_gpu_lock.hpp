// Living with safe-gpu: while we choose GPUs, its users do not, and the other way round.
//
// How this works. safe-gpu (BUTSpeechFIT/safe_gpu, as of 2024-11) takes fcntl.lockf(LOCK_EX), a POSIX record lock of the whole
// file, while it chooses; a flock does not exclude that, an OFD write lock does (measured). Its file has had two places. What
// is there is locked by retries for a bounded time, and whoever keeps it is named; a file that is not ours to write only earns
// a warning.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/time.hpp"

namespace thole::host {

// The two places, the present one first; below a root prefix, where there is one.
std::vector<std::string> safe_gpu_lock_files(const std::string& root = "");

// Who has one of them locked now, as safe-gpu does; "" where nobody has.
std::string safe_gpu_is_kept(const std::vector<std::string>& files);

// Held from construction to destruction, as far as it could be had.
class SafeGpuLock {
 public:
  // `cancel`: a descriptor among them that is readable ends the wait by Error(interrupted).
  SafeGpuLock(const std::vector<std::string>& files, Millis patience, const std::function<void(const std::string&)>& warn,
              std::span<const int> cancel = {});
  bool complete() const { return complete_; }   // every file that exists is locked
  bool kept() const { return kept_; }           // somebody keeps one: he may be choosing now

 private:
  std::vector<Fd> locks_;
  bool complete_ = true;
  bool kept_ = false;
};

}  // namespace thole::host
