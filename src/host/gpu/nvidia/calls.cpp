#include "host/gpu/nvidia/calls.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "host/gpu/nvidia/processes.hpp"
#include "model/machine.hpp"

namespace thole::host::nvidia {
namespace {

Answer<std::uint64_t> value_of(const abi::FieldValue& v) {
  using Value = Answer<std::uint64_t>;
  if (v.rc != abi::ok) return Value::refused(v.rc);
  switch (v.type) {
    case abi::type_u32: return v.value.u32;
    case abi::type_ulong:
    case abi::type_u64: return v.value.u64;
    case abi::type_u16: return v.value.u16;
    case abi::type_i32: return static_cast<std::uint64_t>(std::max(v.value.i32, 0));
    case abi::type_i64: return static_cast<std::uint64_t>(std::max<std::int64_t>(v.value.i64, 0));
    default: return Value::refused(abi::unknown);
  }
}

}  // namespace

Found find_device(const Functions& call, std::uint32_t index, const std::string& expected) {
  if (const auto address = model::PciAddress::parse(expected)) {
    const std::string wide = fmt::format("{:08x}:{:02x}:{:02x}.{}", address->domain, address->bus, address->device,
                                         address->function);
    if (auto device = ask<abi::Device>(call.handle_by_pci, wide.c_str())) return {device, wide};
  }
  Found found{ask<abi::Device>(call.handle_by_index, index), {}};
  if (found.device) found.pci = read_pci(call, found.device.value);
  return found;
}

Answer<std::string> read_pci(const Functions& call, abi::Device device) {
  auto pci = ask<abi::PciInfo>(call.pci_info, device);
  pci.value.bus_id[sizeof pci.value.bus_id - 1] = '\0';
  return pci ? Answer<std::string>(std::string(pci.value.bus_id)) : Answer<std::string>::refused(pci.rc);
}

Answer<RawMemory> read_memory(const Functions& call, abi::Device device) {
  abi::Return rc = abi::absent;
  if (call.memory_v2) {
    abi::MemoryV2 m{};
    m.version = abi::versioned<abi::MemoryV2>(2);
    rc = call.memory_v2(device, &m);
    if (rc == abi::ok) return RawMemory{m.total, m.free, m.used, m.reserved, true};
  }
  auto v1 = ask<abi::Memory>(call.memory, device);
  if (v1) return RawMemory{v1.value.total, v1.value.free, v1.value.used, 0, false};
  return Answer<RawMemory>::refused(v1.rc == abi::absent ? rc : v1.rc);
}

Answer<std::int64_t> read_temperature(const Functions& call, abi::Device device) {
  if (call.temperature_v) {
    abi::Temperature t{abi::versioned<abi::Temperature>(1), abi::temperature_gpu, 0};
    if (call.temperature_v(device, &t) == abi::ok) return t.celsius;
  }
  auto old = ask<std::uint32_t>(call.temperature, device, abi::temperature_gpu);
  return old ? Answer<std::int64_t>(old.value) : Answer<std::int64_t>::refused(old.rc);
}

Answer<std::int64_t> read_int(abi::Return (*function)(abi::Device, int*), abi::Device device) {
  auto answer = ask<int>(function, device);
  return answer ? Answer<std::int64_t>(answer.value) : Answer<std::int64_t>::refused(answer.rc);
}

Answer<std::uint32_t> read_mig_mode(const Functions& call, abi::Device device) {
  if (!call.mig_mode) return Answer<std::uint32_t>::refused(abi::absent);
  std::uint32_t current = 0, pending = 0;
  const abi::Return rc = call.mig_mode(device, &current, &pending);
  return rc == abi::ok ? Answer<std::uint32_t>(current) : Answer<std::uint32_t>::refused(rc);
}

Answer<RawFabric> read_fabric(const Functions& call, abi::Device device) {
  if (!call.fabric) return Answer<RawFabric>::refused(abi::absent);
  abi::FabricInfo info{};
  info.version = abi::versioned<abi::FabricInfo>(2);
  const abi::Return rc = call.fabric(device, &info);
  return rc == abi::ok ? Answer<RawFabric>(RawFabric{info.state, info.status}) : Answer<RawFabric>::refused(rc);
}

Answer<std::vector<std::uint64_t>> read_cpus(const Functions& call, abi::Device device, unsigned scope) {
  using Masks = Answer<std::vector<std::uint64_t>>;
  if (!call.cpu_affinity) return Masks::refused(abi::absent);
  std::vector<unsigned long> words(128);                   // 8192 CPUs, the most that Linux can be built for
  static_assert(sizeof(unsigned long) == sizeof(std::uint64_t));
  abi::Return rc = call.cpu_affinity(device, static_cast<std::uint32_t>(words.size()), words.data(), scope);
  if (rc != abi::ok) return Masks::refused(rc);
  while (!words.empty() && words.back() == 0) words.pop_back();
  return std::vector<std::uint64_t>(words.begin(), words.end());
}

std::vector<Answer<std::uint64_t>> read_fields(const Functions& call, abi::Device device,
                                               std::span<const std::uint32_t> fields) {
  using Value = Answer<std::uint64_t>;
  if (!call.fields) return std::vector<Value>(fields.size(), Value::refused(abi::absent));
  std::vector<abi::FieldValue> values(fields.size());
  for (std::size_t i = 0; i < fields.size(); ++i) values[i].field = fields[i];
  const abi::Return rc = call.fields(device, static_cast<int>(values.size()), values.data());
  std::vector<Value> answers;
  const bool one_is_strange = fields.size() > 1 && (rc == abi::invalid_argument || rc == abi::not_supported);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (rc == abi::ok) answers.push_back(value_of(values[i]));
    else if (one_is_strange) answers.push_back(read_fields(call, device, fields.subspan(i, 1))[0]);
    else answers.push_back(Value::refused(rc));
  }
  return answers;
}

// The list can grow between asking for its length and reading it, so it is asked with room to spare, a bounded number of times.
RawProcesses read_processes(const Versioned<Functions::ProcessList>& list, abi::Device device, const std::string& driver) {
  if (!list.call) return RawProcesses::refused(abi::absent);
  const std::size_t stride = process_stride(list.version, driver);
  std::uint32_t room = 64;
  for (int attempt = 0; attempt < 5; ++attempt) {
    std::vector<std::byte> buffer(room * widest_process);  // wide enough for every layout, whichever was guessed
    std::uint32_t count = room;
    abi::Return rc = list.call(device, &count, buffer.data());
    if (rc == abi::ok) return decode_processes(buffer, std::min(count, room), stride);
    if (rc != abi::insufficient_size) return RawProcesses::refused(rc);
    room = std::min(std::max(count, room) * 2, 65536u);
  }
  return RawProcesses::refused(abi::insufficient_size);
}

}  // namespace thole::host::nvidia
