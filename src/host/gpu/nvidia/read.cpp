#include "host/gpu/nvidia/read.hpp"

#include <algorithm>

#include "host/gpu/nvidia/processes.hpp"

namespace thole::host::nvidia {
namespace {

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

Answer<std::uint64_t> read_field(const Functions& call, abi::Device device, std::uint32_t field) {
  if (!call.fields) return Answer<std::uint64_t>::refused(abi::absent);
  abi::FieldValue v{};
  v.field = field;
  abi::Return rc = call.fields(device, 1, &v);
  if (rc == abi::ok) rc = v.rc;
  if (rc != abi::ok) return Answer<std::uint64_t>::refused(rc);
  switch (v.type) {
    case abi::type_u32: return v.value.u32;
    case abi::type_ulong:
    case abi::type_u64: return v.value.u64;
    case abi::type_u16: return v.value.u16;
    case abi::type_i32: return static_cast<std::uint64_t>(std::max(v.value.i32, 0));
    case abi::type_i64: return static_cast<std::uint64_t>(std::max<std::int64_t>(v.value.i64, 0));
    default: return Answer<std::uint64_t>::refused(abi::unknown);
  }
}

Answer<std::int64_t> read_int(abi::Return (*function)(abi::Device, int*), abi::Device device) {
  auto answer = ask<int>(function, device);
  return answer ? Answer<std::int64_t>(answer.value) : Answer<std::int64_t>::refused(answer.rc);
}

Answer<std::vector<std::uint64_t>> read_cpus(const Functions& call, abi::Device device, unsigned scope) {
  if (!call.cpu_affinity) return Answer<std::vector<std::uint64_t>>::refused(abi::absent);
  std::vector<unsigned long> words(128);                   // 8192 CPUs, the most that Linux can be built for
  static_assert(sizeof(unsigned long) == sizeof(std::uint64_t));
  abi::Return rc = call.cpu_affinity(device, static_cast<std::uint32_t>(words.size()), words.data(), scope);
  if (rc != abi::ok) return Answer<std::vector<std::uint64_t>>::refused(rc);
  while (!words.empty() && words.back() == 0) words.pop_back();
  return std::vector<std::uint64_t>(words.begin(), words.end());
}

}  // namespace

RawDriver Source::begin() {
  const Functions& call = library_.call;
  if (driver_.init != abi::ok) {
    driver_.found_as = library_.path;
    driver_.init = call.init();
    driver_.driver = ask_text<abi::version_size>(call.driver_version);
    driver_.nvml = ask_text<abi::version_size>(call.nvml_version);
    if (driver_.init != abi::ok) return driver_;
    if (!call.event_set_create || call.event_set_create(&events_) != abi::ok) events_ = nullptr;
  }
  driver_.count = ask<std::uint32_t>(call.count);
  drain_events();
  return driver_;
}

RawIdentity Source::identity(std::uint32_t index, bool want_cpus) {
  const Functions& call = library_.call;
  auto device = ask<abi::Device>(call.handle_by_index, index);
  if (!device) {
    RawIdentity raw;
    raw.index = index;
    raw.handle = device.rc;
    std::lock_guard guard(mutex_);
    devices_.erase(index);
    identities_.erase(index);
    return raw;
  }
  auto uuid = ask_text<abi::uuid_size>(call.uuid, device.value);
  {
    std::lock_guard guard(mutex_);
    devices_[index] = device.value;
    auto known = identities_.find(index);
    if (uuid && known != identities_.end() && known->second.uuid == uuid) return known->second;
  }
  RawIdentity raw = read_identity(index, device.value, want_cpus);
  raw.uuid = uuid;
  register_events(device.value);
  std::lock_guard guard(mutex_);
  return identities_[index] = raw;
}

RawIdentity Source::read_identity(std::uint32_t index, abi::Device device, bool want_cpus) {
  const Functions& call = library_.call;
  RawIdentity raw;
  raw.index = index;
  raw.handle = abi::ok;
  raw.name = ask_text<abi::name_size>(call.name, device);
  raw.serial = ask_text<abi::serial_size>(call.serial, device);
  auto pci = ask<abi::PciInfo>(call.pci_info, device);
  pci.value.bus_id[sizeof pci.value.bus_id - 1] = '\0';
  raw.pci = pci ? Answer<std::string>(std::string(pci.value.bus_id)) : Answer<std::string>::refused(pci.rc);
  raw.minor = ask<std::uint32_t>(call.minor, device);
  read_links(raw, device);
  if (want_cpus) {
    raw.cpus_node = read_cpus(call, device, abi::scope_node);
    raw.cpus_package = read_cpus(call, device, abi::scope_socket);
  }
  return raw;
}

// Which links are up and where they lead; when they lead to a switch, how many reach it; and, where neither would tell the
// pairs, whether peer access goes over NVLink.
void Source::read_links(RawIdentity& raw, abi::Device device) {
  const Functions& call = library_.call;
  std::vector<RawLink> links;
  abi::Return rc = abi::absent;
  for (std::uint32_t link = 0; link < abi::max_links; ++link) {
    auto active = ask<std::uint32_t>(call.link_state, device, link);
    rc = active.rc;
    if (!active) break;                                    // past the last link of this GPU, or none at all
    if (active.value == 0) continue;
    RawLink found{link, "", -1};
    auto remote = ask<abi::PciInfo>(call.link_remote_pci, device, link);
    remote.value.bus_id[sizeof remote.value.bus_id - 1] = '\0';
    if (remote) found.remote = remote.value.bus_id;
    auto type = ask<int>(call.link_remote_type, device, link);
    if (type) found.remote_type = type.value;
    links.push_back(found);
  }
  bool function_there = rc != abi::absent;
  bool any = !links.empty();
  raw.links = any || rc == abi::ok || rc == abi::invalid_argument ? Answer<std::vector<RawLink>>(links)
                                                                  : Answer<std::vector<RawLink>>::refused(rc);
  if (any) raw.nvswitch_links = read_field(call, device, abi::field_nvswitch_links);
  if (!any && function_there) return;
  std::map<std::uint32_t, abi::Device> others;
  {
    std::lock_guard guard(mutex_);
    others = devices_;                                     // every pair is seen by the one of the two that comes later
  }
  for (auto [index, other] : others) {
    if (index == raw.index) continue;
    auto status = ask<std::uint32_t>(call.p2p_status, device, other, abi::p2p_caps_nvlink);
    raw.peers.push_back({index, status.rc, status.value});
  }
}

RawUse Source::use(std::uint32_t index) {
  const Functions& call = library_.call;
  RawUse raw;
  raw.index = index;
  abi::Device device;
  {
    std::lock_guard guard(mutex_);
    auto known = devices_.find(index);
    if (known == devices_.end()) return raw;
    device = known->second;
    raw.xids = xids_[device];
  }
  raw.memory = read_memory(call, device);
  auto utilization = ask<abi::Utilization>(call.utilization, device);
  raw.utilization.rc = utilization.rc;
  raw.utilization.value = {utilization.value.gpu, utilization.value.memory};
  raw.temperature_c = read_temperature(call, device);
  raw.power_mw = ask<std::uint32_t>(call.power, device);
  raw.power_limit_mw = ask<std::uint32_t>(call.power_limit, device);
  raw.compute_mode = read_int(call.compute_mode, device);
  raw.display_active = read_int(call.display_active, device);
  raw.display_mode = read_int(call.display_mode, device);
  raw.recovery_action = read_field(call, device, abi::field_recovery_action);
  raw.compute = processes(call.compute_processes, device);
  raw.graphics = processes(call.graphics_processes, device);
  raw.mps = processes(call.mps_processes, device);
  raw.accounting = ask<std::uint32_t>(call.accounting_mode, device);
  if (!call.mig_mode) {
    raw.mig_mode = Answer<std::uint32_t>::refused(abi::absent);
  } else {
    std::uint32_t current = 0, pending = 0;
    abi::Return rc = call.mig_mode(device, &current, &pending);
    raw.mig_mode = rc == abi::ok ? Answer<std::uint32_t>(current) : Answer<std::uint32_t>::refused(rc);
  }
  if (raw.mig_mode && raw.mig_mode.value == 1) read_instances(raw, device);
  return raw;
}

void Source::read_instances(RawUse& raw, abi::Device device) {
  const Functions& call = library_.call;
  auto most = ask<std::uint32_t>(call.max_mig_devices, device);
  std::uint32_t limit = most ? std::min<std::uint32_t>(most.value, 64) : 7;
  // Without the privilege for the sum over all instances, the instances are asked one by one.
  bool ask_each = !raw.compute;
  for (std::uint32_t i = 0; i < limit; ++i) {
    auto instance = ask<abi::Device>(call.mig_device, device, i);
    if (instance) raw.instances.push_back(read_instance(i, instance.value, ask_each));
    else if (instance.rc != abi::not_found) break;         // not found is a hole: instances keep their index when others go
  }
}

RawInstance Source::read_instance(std::uint32_t index, abi::Device device, bool want_processes) {
  const Functions& call = library_.call;
  RawInstance raw;
  raw.index = index;
  raw.uuid = ask_text<abi::uuid_size>(call.uuid, device);
  raw.name = ask_text<abi::name_size>(call.name, device);
  raw.gpu_instance = ask<std::uint32_t>(call.gpu_instance_id, device);
  raw.compute_instance = ask<std::uint32_t>(call.compute_instance_id, device);
  auto attributes = ask<abi::Attributes>(call.attributes, device);
  auto part = [&](auto value) {
    return attributes ? Answer<decltype(value)>(value) : Answer<decltype(value)>::refused(attributes.rc);
  };
  raw.memory_mib = part(attributes.value.memory_mib);
  raw.gpu_slices = part(attributes.value.gpu_slices);
  raw.compute_slices = part(attributes.value.compute_slices);
  raw.memory = read_memory(call, device);
  if (!want_processes) return raw;
  raw.compute = processes(call.compute_processes, device);
  raw.graphics = processes(call.graphics_processes, device);
  raw.mps = processes(call.mps_processes, device);
  return raw;
}

// The list can grow between asking for its length and reading it, so it is asked with room to spare, a bounded number of times.
RawProcesses Source::processes(const Versioned<Functions::ProcessList>& list, abi::Device device) {
  if (!list.call) return RawProcesses::refused(abi::absent);
  std::size_t stride = process_stride(list.version, driver_.driver.value);
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

void Source::register_events(abi::Device device) {
  if (events_ && library_.call.event_register) library_.call.event_register(device, abi::event_xid, events_);
}

void Source::drain_events() {
  if (!events_ || !library_.call.event_wait) return;
  for (int i = 0; i < 256; ++i) {
    abi::Event event{};
    if (library_.call.event_wait(events_, &event, 0) != abi::ok) return;
    std::lock_guard guard(mutex_);
    if (event.type == abi::event_xid) xids_[event.device].push_back(event.value);
  }
}

}  // namespace thole::host::nvidia
