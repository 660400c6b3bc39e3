// NVIDIA GPUs of this machine: the kernel's files at once, the driver's library through a probe process that may hang or crash.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "host/probe/runner.hpp"
#include "host/sysfs/tree.hpp"
#include "port/gpu_backend.hpp"

namespace thole::host {

namespace nvidia { struct Observed; }

struct NvidiaOptions {
  std::string root;                                        // prefix of every file read; "" is this machine
  std::string nvml_path;                                   // the driver library; "" = search (nvidia/library.hpp)
  std::string program;                                     // runs `__probe nvidia`: this very binary; "" = files only
  std::string runtime_dir;                                 // per user, 0700: the probe's lock and last answer; "" = none
};

// A reading takes as long as the library needs, at most `patience`, and never more than 10 s the first time (a driver that must
// initialise its GPUs takes seconds) and 2 s later.
// The probe stays, as a child of this process, for 10 s after a reading or until `rest`.
class NvidiaBackend : public port::GpuBackend {
 public:
  explicit NvidiaBackend(NvidiaOptions options);

  std::string name() const override { return "nvidia"; }
  bool present() const override;
  port::Reading read(Millis patience) override;
  std::optional<std::uint64_t> peak_memory_mib(const std::vector<std::string>& gpus, WallTime from, WallTime to,
                                               Millis patience) override;
  void rest() override { probe_.discard(); }

 private:
  void ask(nvidia::Observed& observed, Millis patience);
  std::vector<std::uint32_t> recall_doubtful() const;
  void note_doubtful(const nvidia::Observed& observed) const;

  NvidiaOptions options_;
  Tree tree_;
  ProbeRunner probe_;
  bool asked_before_ = false;
  std::set<std::string> accounted_;                        // UUIDs of the GPUs with accounting mode on, by the last reading
};

}  // namespace thole::host
