// Asks the driver library and fills raw records. Runs in the probe only: any call may hang, crash or lie.
//
// No more is asked than the purpose needs: every call takes the driver's own lock, stalls the jobs that compute, and costs tens
// of milliseconds on a slow machine. What the kernel's files tell, or an earlier probe has told, is not asked (ProbeRequest);
// what only root can change is asked again after some seconds; who is on a GPU and how it is, each time: for a claim. Who only
// shows it keeps some seconds what the memory in use says to be as it was.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/time.hpp"
#include "host/gpu/nvidia/accounts.hpp"
#include "host/gpu/nvidia/library.hpp"
#include "host/gpu/nvidia/raw.hpp"
#include "host/gpu/nvidia/request.hpp"

namespace thole::host::nvidia {

// One initialised library. The functions may be called from several threads, each for a GPU of its own: the probe overtakes a
// GPU that does not answer.
class Source {
 public:
  explicit Source(Library library) : library_(std::move(library)) {}

  // Initialises the library (the first time) and counts the GPUs where the kernel's files list others than the last time, or
  // none: they come and go.
  RawDriver begin(const ProbeRequest& request);
  RawIdentity identity(std::uint32_t index, const ProbeRequest& request);
  RawUse use(std::uint32_t index, port::Purpose purpose, bool claimed);
  RawAccounts accounts(const std::string& uuid, std::uint64_t since_us) const {
    return read_accounts(library_.call, uuid, since_us);
  }

  // Has Xids reported from now on. Not part of an answer: nobody waits for it.
  void listen();

 private:
  struct FieldReading {
    Answer<std::uint64_t> nvswitch_links, recovery_action, power_mw, power_limit_mw, remap_pending, remap_failed;
  };
  struct Seen {
    abi::Device device = nullptr;
    RawIdentity identity;
    bool connectors = true;
    bool fabric_settled = false;                           // joined to the others, or there is nothing to join
    std::optional<FieldReading> fields;                    // read with the identity, for the use that follows
    RawUse use;                                            // the last one, for what need not be asked again yet
    SteadyTime settings_read{}, lists_read{};
  };

  RawIdentity read_identity(std::uint32_t index, Seen& seen, const ProbeRequest& request, const ProbeRequest::Node& node);
  FieldReading read_field_values(const Seen& seen, port::Purpose purpose, bool with_links) const;
  void read_settings(RawUse& raw, Seen& seen, port::Purpose purpose, bool claimed) const;
  void read_figures(RawUse& raw, const Seen& seen, const FieldReading& fields) const;
  void read_process_lists(RawUse& raw, Seen& seen, port::Purpose purpose) const;
  void read_instances(RawUse& raw, abi::Device device) const;
  RawInstance read_instance(std::uint32_t index, abi::Device device, bool want_processes) const;
  RawProcesses processes(const Versioned<Functions::ProcessList>& list, abi::Device device) const;
  void drain_events(const ProbeRequest& request);
  bool need_xids(port::Purpose purpose) const;

  Library library_;
  RawDriver driver_;
  std::string listing_;                                    // the GPUs of the kernel's files when they were last counted
  bool recounted_ = false;

  std::mutex mutex_;                                       // guards what follows; a Seen's inside is one thread's
  std::map<std::uint32_t, Seen> seen_;                     // by index
  std::map<abi::Device, std::vector<std::uint64_t>> xids_;
  abi::EventSet events_ = nullptr;
  bool listening_ = false;                       // listen() has begun
  SteadyTime drained_{};
};

}  // namespace thole::host::nvidia
