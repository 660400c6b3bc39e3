// NVIDIA GPUs of this machine: the kernel's files at once, the driver's library through a probe process that may hang or crash.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "host/gpu/nvidia/identities.hpp"
#include "host/gpu/nvidia/request.hpp"
#include "host/gpu/vendor.hpp"
#include "host/probe/runner.hpp"
#include "host/sysfs/tree.hpp"
#include "port/gpu_backend.hpp"

namespace thole::host {

namespace nvidia {
struct Observed;
extern const GpuVendor functions;
}

struct NvidiaOptions {
  std::string root;                                        // prefix of every file read; "" is this machine
  std::string nvml_path;                                   // the driver library; "" = search (nvidia/library.hpp)
  std::string program;                                     // runs `__probe nvidia`: this very binary; "" = files only
  std::string runtime_dir;                                 // per user, 0700: the probe's lock and last answer; "" = none
  bool probe_outlives = false;                             // this process: so that a driver that comes up can go on doing so
};

// A reading takes as long as the library needs, at most `patience`; a GPU that hangs while others answer costs only some
// seconds of it (patience.hpp). The probe stays, as a child of this process, for 10 s after a reading or until `rest`.
class NvidiaBackend : public port::GpuBackend {
 public:
  explicit NvidiaBackend(NvidiaOptions options);

  std::string name() const { return "nvidia"; }
  bool present() const override;
  port::Numbering numbering() const override { return {join(tree_.names("/proc/driver/nvidia/gpus"), " "), false}; }
  using port::GpuBackend::read;
  port::Reading read(Millis patience, const port::Question& question) override;
  std::optional<std::uint64_t> peak_memory_mib(const std::vector<std::string>& gpus, WallTime from, WallTime to,
                                               Millis patience) override;
  void rest() override { probe_.discard(); }

 private:
  nvidia::Observed observe() const;
  void ask(nvidia::Observed& observed, Millis patience, const port::Question& question);
  bool ask_again(nvidia::Observed& observed, nvidia::ProbeRequest& request, SteadyTime deadline);
  bool overlay(nvidia::Observed& observed, const std::vector<std::uint32_t>& asked) const;
  nvidia::ProbeRequest request_for(const nvidia::Observed& observed, const port::Question& question) const;
  std::vector<std::uint32_t> indices_of(const std::vector<std::string>& keys) const;
  std::string memory() const { return probe_.has_memory() ? options_.runtime_dir : ""; }

  NvidiaOptions options_;
  Tree tree_;
  ProbeRunner probe_;
  nvidia::Identities identities_;
  std::optional<nvidia::RawReading> whole_;                // the last complete answer about all GPUs
  std::map<std::string, std::uint32_t> indices_;           // key to the library's index, of that answer
  std::map<std::string, bool> accounted_;                  // by UUID: whether accounting mode is on, where that is known
};

}  // namespace thole::host
