// Living with safe-gpu: while we choose GPUs, its users do not, and the other way round.
//
// How this works. safe-gpu (BUTSpeechFIT/safe_gpu, as of 2024-11) takes fcntl.lockf(LOCK_EX), a POSIX record lock of the whole
// file, while it chooses; a flock does not exclude that, an OFD write lock does (measured). Its file has had two paths. It is
// only tried; who waits for it has nothing locked meanwhile, and names whoever keeps it. A file that is not ours to write only
// earns a warning.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/time.hpp"

namespace thole::host {

// The two paths, the present one first; below a root prefix, where there is one.
std::vector<std::string> safe_gpu_lock_files(const std::string& root = "");

// Who has one of them locked now, as safe-gpu does; "" where nobody has.
std::string safe_gpu_is_kept(const std::vector<std::string>& files);

// How long one who claims waits for it in sum: who keeps it, or lets go of it just in time again and again, costs 3 s a minute.
class SafeGpuPatience {
 public:
  Millis left(SteadyTime now);
  void spend(Millis waited) { left_ -= waited; }

 private:
  static constexpr Millis all{3000};             // safe-gpu asks nvidia-smi three times, and makes its contexts
  static constexpr int regained_in = 20;         // times as long as it took
  Millis left_ = all;
  SteadyTime asked_{};
};

// Until nobody has any of them locked, or that long. `cancel`: a descriptor among them that is readable ends the wait by
// Error(interrupted).
void wait_for_safe_gpu(const std::vector<std::string>& files, Millis patience,
                       const std::function<void(const std::string&)>& warn, std::span<const int> cancel = {});

// Held from construction to destruction, as far as it can be had at once.
class SafeGpuLock {
 public:
  SafeGpuLock(const std::vector<std::string>& files, const std::function<void(const std::string&)>& warn);
  bool complete() const { return complete_; }   // every file that exists is locked
  bool kept() const { return kept_; }           // somebody keeps one: he may be choosing now

 private:
  std::vector<Fd> locks_;
  bool complete_ = true;
  bool kept_ = false;
};

}  // namespace thole::host
