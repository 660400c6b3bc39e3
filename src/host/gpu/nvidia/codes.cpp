// What the library's return codes mean to people.
#include "base/text.hpp"
#include "host/gpu/nvidia/translate.hpp"

namespace thole::host::nvidia {

std::string describe(abi::Return rc) {
  switch (rc) {
    case abi::not_asked: return "not asked";
    case abi::absent: return "the driver library has no such function";
    case abi::uninitialized: return "not initialised";
    case abi::invalid_argument: return "invalid argument";
    case abi::not_supported: return "not supported";
    case abi::no_permission: return "no permission";
    case abi::not_found: return "not found";
    case abi::insufficient_size: return "the list grew faster than it could be read";
    case abi::driver_not_loaded: return "the driver is not loaded";
    case abi::timeout: return "the driver timed out";
    case abi::irq_issue: return "an interrupt problem of the driver";
    case abi::library_not_found: return "a library of the driver is missing";
    case abi::corrupted_inforom: return "the GPU's infoROM is corrupted";
    case abi::gpu_is_lost: return "the GPU is lost";
    case abi::reset_required: return "the GPU must be reset";
    case abi::operating_system: return "the operating system refused";
    case abi::lib_rm_version_mismatch: return "driver and library have different versions";
    case abi::in_use: return "in use";
    case abi::memory: return "out of memory";
    case abi::no_data: return "no data";
    case abi::insufficient_resources: return "insufficient resources";
    case abi::not_ready: return "not ready";
    case abi::gpu_not_found: return "no such GPU";
    case abi::invalid_state: return "invalid state";
    case abi::unknown: return "an unknown error of the driver";
    default: return "error " + std::to_string(rc);
  }
}

bool means_unsupported(abi::Return rc) {
  return rc == abi::absent || rc == abi::not_supported || rc == abi::function_not_found ||
         rc == abi::argument_version_mismatch || rc == abi::deprecated;
}

std::optional<DriverTrouble> trouble(const RawDriver& driver) {
  using model::Health;
  constexpr const char* take_out = "take the CUDA stubs directory out of LD_LIBRARY_PATH";
  if (driver.stub_library)
    return DriverTrouble{Health::unreadable,
                         fmt::format("{}: a stub or some other library, not the driver's; {}", driver.load_error, take_out)};
  if (driver.init == abi::library_not_found || driver.init == abi::function_not_found)
    return DriverTrouble{Health::unreadable,
                         fmt::format("{} is a stub, not the driver's library: {}", driver.found_as, take_out)};
  if (!driver.load_error.empty())
    return DriverTrouble{
        Health::unreadable,
        fmt::format("the driver's library cannot be loaded ({}): install it (libnvidia-ml1, part of the driver), "
                    "or give the container the driver capability \"utility\"",
                    driver.load_error)};
  switch (driver.init) {
    case abi::ok: break;
    case abi::driver_not_loaded:
      return DriverTrouble{Health::unreadable, "the nvidia kernel module is not loaded: sudo modprobe nvidia"};
    case abi::lib_rm_version_mismatch:
      return DriverTrouble{
          Health::driver_mismatch,
          "the driver was upgraded and the old kernel module still runs: reboot, or reload the nvidia modules"};
    case abi::no_permission:
      return DriverTrouble{Health::unreadable,
                           "no permission to use /dev/nvidiactl: join the group that owns it (often \"video\")"};
    case abi::unknown:
      return DriverTrouble{Health::unreadable,
                           "the driver's library did not start: an unknown error. In a container: its devices were taken from "
                           "it, as systemctl daemon-reload does; restart it. Elsewhere see dmesg"};
    default:
      return DriverTrouble{Health::unreadable, fmt::format("the driver's library did not start: {}", describe(driver.init))};
  }
  if (!driver.count)
    return DriverTrouble{Health::unreadable, fmt::format("the driver could not count its GPUs: {}", describe(driver.count.rc))};
  return std::nullopt;
}

}  // namespace thole::host::nvidia
