// One question to the driver library each: the value, or the return code that came instead. In the probe only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "host/gpu/nvidia/library.hpp"
#include "host/gpu/nvidia/raw.hpp"

namespace thole::host::nvidia {

// call(function, arguments..., &out): the value written, or the refusal. A missing function refuses with abi::absent.
template <class T, class Function, class... Arguments>
Answer<T> ask(Function* function, Arguments... arguments) {
  if (!function) return Answer<T>::refused(abi::absent);
  T out{};
  abi::Return rc = function(arguments..., &out);
  return rc == abi::ok ? Answer<T>(out) : Answer<T>::refused(rc);
}

template <unsigned size, class Function, class... Arguments>
Answer<std::string> ask_text(Function* function, Arguments... arguments) {
  if (!function) return Answer<std::string>::refused(abi::absent);
  char buffer[size + 1] = {};
  abi::Return rc = function(arguments..., buffer, size);
  return rc == abi::ok ? Answer<std::string>(std::string(buffer)) : Answer<std::string>::refused(rc);
}

// A GPU and its address as the library writes it. Asked for by the address where the GPU at this position is `expected`: one
// call instead of two. Whatever is not found so is asked for by its index, and then it says itself who it is.
struct Found {
  Answer<abi::Device> device;
  Answer<std::string> pci;
};
Found find_device(const Functions& call, std::uint32_t index, const std::string& expected);

Answer<std::string> read_pci(const Functions& call, abi::Device device);
Answer<RawMemory> read_memory(const Functions& call, abi::Device device);
Answer<std::int64_t> read_temperature(const Functions& call, abi::Device device);
Answer<std::int64_t> read_int(abi::Return (*function)(abi::Device, int*), abi::Device device);
Answer<std::uint32_t> read_mig_mode(const Functions& call, abi::Device device);
Answer<RawFabric> read_fabric(const Functions& call, abi::Device device);
Answer<std::vector<std::uint64_t>> read_cpus(const Functions& call, abi::Device device, unsigned scope);

// In the order asked, by one call; one by one where a library refuses all of them because it does not know one.
std::vector<Answer<std::uint64_t>> read_fields(const Functions& call, abi::Device device,
                                               std::span<const std::uint32_t> fields);

// One of the process lists, whatever its length; `driver` is the version that decides its layout.
RawProcesses read_processes(const Versioned<Functions::ProcessList>& list, abi::Device device, const std::string& driver);

}  // namespace thole::host::nvidia
