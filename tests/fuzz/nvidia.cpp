// The text of NVIDIA's kernel module and the lines of the probe: read, or refused, never believed blindly. The first byte
// chooses.
#include "fuzz.hpp"
#include "host/gpu/nvidia/files.hpp"
#include "host/gpu/nvidia/kernel_log.hpp"
#include "host/gpu/nvidia/raw.hpp"

using namespace thole::host::nvidia;

int fuzz_one(const std::uint8_t* data, std::size_t size) {
  thole::fuzz::Input input(data, size);
  switch (input.byte() % 4) {
    case 0: {
      Information information = parse_information(input.rest());
      thole::fuzz::check(information.uuid.find('?') == std::string::npos, "question marks are no identity");
      thole::fuzz::check(!information.minor || *information.minor >= 0, "a minor is a number of a device");
      break;
    }
    case 1:
      thole::fuzz::check(parse_driver_version(input.rest()).size() <= input.rest().size(), "a version is part of the text");
      break;
    case 2:
      try {
        parse_line(input.rest());
      } catch (const std::exception&) {  // as documented
      }
      break;
    case 3:
      for (const auto& [gpu, xids] : parse_xids(input.rest()))
        thole::fuzz::check(!xids.fatal || is_fatal_xid(static_cast<std::uint64_t>(*xids.fatal)), "what is called fatal is");
      break;
  }
  return 0;
}
