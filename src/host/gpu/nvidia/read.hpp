// Asks the driver library and fills raw records. Runs in the probe only: any call may hang, crash or lie.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "host/gpu/nvidia/accounts.hpp"
#include "host/gpu/nvidia/library.hpp"
#include "host/gpu/nvidia/raw.hpp"

namespace thole::host::nvidia {

// One initialised library. The functions may be called from several threads, each for a GPU of its own: the probe overtakes a
// GPU that does not answer.
class Source {
 public:
  explicit Source(Library library) : library_(std::move(library)) {}

  // Initialises the library (the first time) and counts the GPUs (every time: they come and go).
  RawDriver begin();
  RawIdentity identity(std::uint32_t index, bool want_cpus);
  RawUse use(std::uint32_t index);
  RawAccounts accounts(const std::string& uuid, std::uint64_t since_us) const {
    return read_accounts(library_.call, uuid, since_us);
  }

 private:
  RawIdentity read_identity(std::uint32_t index, abi::Device device, bool want_cpus);
  void read_links(RawIdentity& raw, abi::Device device);
  void read_instances(RawUse& raw, abi::Device device);
  RawInstance read_instance(std::uint32_t index, abi::Device device, bool want_processes);
  RawProcesses processes(const Versioned<Functions::ProcessList>& list, abi::Device device);
  void register_events(abi::Device device);
  void drain_events();

  Library library_;
  RawDriver driver_;
  abi::EventSet events_ = nullptr;

  std::mutex mutex_;                                       // guards what follows
  std::map<std::uint32_t, abi::Device> devices_;           // by index
  std::map<std::uint32_t, RawIdentity> identities_;
  std::map<abi::Device, std::vector<std::uint64_t>> xids_;
};

}  // namespace thole::host::nvidia
