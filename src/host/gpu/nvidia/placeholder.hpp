// A CUDA context on claimed GPUs and nothing in it, so that whoever looks for GPUs without processes passes them by.
//
// How it works. The context lives in a process of its own (`thole __placeholder`), because libcuda may hang or crash, takes 100
// MB of host memory and cannot be unloaded. That process sees the claimed GPUs alone, makes their primary contexts, says so,
// and sleeps on its channel: it ends when the channel closes, or with its parent, by the kernel's word. A context costs about
// 0.5 GiB of each GPU's memory (518 MiB on an H100, driver 590), and the driver frees it however the process ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.hpp"
#include "base/time.hpp"
#include "port/placeholder.hpp"

namespace thole::host {

struct PlaceholderOptions {
  std::string program;                  // runs `__placeholder LIBRARY UUID...`: this very binary
  std::string name;                     // argv[0] of that process, by which use is told apart from a program's
  std::string cuda_path;                // another libcuda; "" = the system's
  std::vector<std::string> neighbours;  // lock files of those who pick GPUs by their processes
  Millis patience{10'000};              // a driver that must initialise its GPUs takes seconds
};

class NvidiaPlaceholder : public port::Placeholder {
 public:
  explicit NvidiaPlaceholder(PlaceholderOptions options) : options_(std::move(options)) {}
  ~NvidiaPlaceholder() override { end(); }

  std::shared_ptr<void> alone(std::span<const int> cancel) override;
  void put(const std::vector<std::string>& uuids) override;
  void end() override;

 private:
  void start(const std::vector<std::string>& uuids);
  std::string answer() const;           // what the process says, one line; "" when it ended or took too long

  PlaceholderOptions options_;
  Fd channel_;
  pid_t pid_ = 0;
};

// The channel in that process; its standard streams belong to the vendor's library.
inline constexpr int placeholder_channel_fd = 3;

// The life of that process. Returns its exit status.
int be_placeholder(const std::string& cuda_path, const std::vector<std::string>& uuids);

}  // namespace thole::host
