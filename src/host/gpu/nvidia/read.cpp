#include "host/gpu/nvidia/read.hpp"

#include <algorithm>
#include <utility>

#include "host/gpu/nvidia/calls.hpp"
#include "host/gpu/nvidia/links.hpp"

namespace thole::host::nvidia {
namespace {

using port::Purpose;

constexpr Seconds settings_stay{10};                       // compute mode, MIG mode, display: changed by people
constexpr Seconds lists_stay{10};                          // of processes, and Xids that decide nothing: for show

SteadyTime now() { return std::chrono::steady_clock::now(); }

bool is_settled(abi::Return rc) { return rc == abi::ok || rc == abi::not_supported || rc == abi::absent; }

// Bytes in use that the lists read so far do not account for; absent when that cannot be told.
std::optional<std::uint64_t> unexplained(const RawUse& raw) {
  if (!raw.memory || raw.memory.value.total == 0) return std::nullopt;
  const RawMemory& m = raw.memory.value;
  const std::uint64_t not_used = m.free + m.reserved;
  std::uint64_t rest = !m.v2 ? m.used : m.total > not_used ? m.total - not_used : 0;
  for (const RawProcesses* list : {&raw.compute, &raw.graphics})
    for (const RawProcess& process : list->value) {
      if (process.used_memory == abi::not_available) return std::nullopt;
      rest -= std::min(rest, process.used_memory);
    }
  return rest;
}

}  // namespace

RawDriver Source::begin(const ProbeRequest& request) {
  const Functions& call = library_.call;
  const bool examine = request.purpose == Purpose::examine;
  if (driver_.init != abi::ok) {
    driver_.found_as = library_.path;
    driver_.init = call.init();
    driver_.driver = request.driver.empty() || examine ? ask_text<abi::version_size>(call.driver_version)
                                                       : Answer<std::string>(request.driver);
    if (examine) driver_.nvml = ask_text<abi::version_size>(call.nvml_version);
    if (driver_.init != abi::ok) return driver_;
  }
  std::string listing;
  for (const ProbeRequest::Node& node : request.nodes) listing += node.pci + " ";
  recounted_ = !driver_.count || examine || listing.empty() || listing != listing_;
  if (recounted_) driver_.count = ask<std::uint32_t>(call.count);
  listing_ = listing;
  drain_events(request);
  return driver_;
}

// A GPU that this probe has met is asked again who it is only after GPUs have come or gone.
RawIdentity Source::identity(std::uint32_t index, const ProbeRequest& request) {
  if (!recounted_) {
    std::lock_guard guard(mutex_);
    if (auto known = seen_.find(index); known != seen_.end()) return known->second.identity;
  }
  const bool as_listed = driver_.count && driver_.count.value == request.nodes.size();
  const auto [device, pci] = find_device(library_.call, index, as_listed ? request.nodes[index].pci : "");
  std::unique_lock guard(mutex_);
  if (auto known = seen_.find(index); known != seen_.end()) {
    const bool same = device && known->second.device == device.value && pci && known->second.identity.pci == pci;
    if (same) return known->second.identity;
    seen_.erase(known);
  }
  RawIdentity raw;
  raw.index = index;
  raw.handle = device.rc;
  if (!device) return raw;
  Seen& seen = seen_[index];
  guard.unlock();
  seen.device = device.value;
  raw.pci = pci;
  seen.identity = raw;
  return read_identity(index, seen, request, request.node(pci.value));
}

RawIdentity Source::read_identity(std::uint32_t index, Seen& seen, const ProbeRequest& request,
                                  const ProbeRequest::Node& node) {
  const Functions& call = library_.call;
  RawIdentity& raw = seen.identity;
  seen.connectors = node.connectors;
  raw.known = node.known;
  seen.fabric_settled = node.known;
  if (node.known) return raw;
  if (!node.named) {
    raw.uuid = ask_text<abi::uuid_size>(call.uuid, seen.device);
    raw.name = ask_text<abi::name_size>(call.name, seen.device);
    raw.minor = ask<std::uint32_t>(call.minor, seen.device);
  }
  raw.serial = ask_text<abi::serial_size>(call.serial, seen.device);
  seen.fields = read_field_values(seen, request.purpose, true);
  raw.nvswitch_links = seen.fields->nvswitch_links;
  std::map<std::uint32_t, abi::Device> others;
  {
    std::lock_guard guard(mutex_);
    for (const auto& [other, known] : seen_)
      if (other != index) others[other] = known.device;
  }
  read_links(raw, call, seen.device, others);
  if (request.want_cpus) {
    raw.cpus_node = read_cpus(call, seen.device, abi::scope_node);
    raw.cpus_package = read_cpus(call, seen.device, abi::scope_socket);
  }
  return raw;
}

Source::FieldReading Source::read_field_values(const Seen& seen, Purpose purpose, bool with_links) const {
  FieldReading reading;
  std::vector<std::uint32_t> ids;
  std::vector<Answer<std::uint64_t>*> targets;
  Answer<std::uint64_t> instant;
  const auto want = [&](std::uint32_t id, Answer<std::uint64_t>& target) {
    ids.push_back(id);
    targets.push_back(&target);
  };
  if (with_links) want(abi::field_nvswitch_links, reading.nvswitch_links);
  const abi::Return told = seen.use.recovery_action.rc;    // drivers before NVML 12.8 do not know the field
  const bool never_tells = (told == abi::not_supported || told == abi::invalid_argument) && purpose != Purpose::examine;
  if (never_tells) reading.recovery_action = seen.use.recovery_action;
  else want(abi::field_recovery_action, reading.recovery_action);
  if (purpose != Purpose::claim) {
    want(abi::field_power_average, reading.power_mw);
    want(abi::field_power_instant, instant);
    want(abi::field_power_limit, reading.power_limit_mw);
  }
  if (purpose == Purpose::examine) {
    want(abi::field_remap_pending, reading.remap_pending);
    want(abi::field_remap_failed, reading.remap_failed);
  }
  if (ids.empty()) return reading;
  const auto answers = read_fields(library_.call, seen.device, ids);
  for (std::size_t i = 0; i < ids.size(); ++i) *targets[i] = answers[i];
  if (!reading.power_mw && instant) reading.power_mw = instant;
  return reading;
}

RawUse Source::use(std::uint32_t index, Purpose purpose, bool claimed) {
  RawUse raw;
  raw.index = index;
  Seen* seen;
  {
    std::lock_guard guard(mutex_);
    auto known = seen_.find(index);
    if (known == seen_.end()) return raw;
    seen = &known->second;
    raw.xids = xids_[seen->device];
  }
  FieldReading fields = seen->fields ? *std::exchange(seen->fields, std::nullopt) : read_field_values(*seen, purpose, false);
  raw.recovery_action = fields.recovery_action;
  raw.remap_pending = fields.remap_pending;
  raw.remap_failed = fields.remap_failed;
  raw.memory = read_memory(library_.call, seen->device);
  read_settings(raw, *seen, purpose, claimed);
  if (purpose != Purpose::claim) read_figures(raw, *seen, fields);
  if (purpose == Purpose::examine) raw.clock_reasons = ask<std::uint64_t>(library_.call.clock_reasons, seen->device);
  read_process_lists(raw, *seen, purpose);
  if (raw.mig_mode && raw.mig_mode.value == 1) read_instances(raw, seen->device);
  seen->use = raw;
  return raw;
}

void Source::read_settings(RawUse& raw, Seen& seen, Purpose purpose, bool claimed) const {
  const Functions& call = library_.call;
  const abi::Device device = seen.device;
  const bool fresh = purpose != Purpose::examine && now() - seen.settings_read < settings_stay;
  if (!fresh) seen.settings_read = now();
  const auto setting = [&](auto RawUse::*field, auto read) {
    raw.*field = fresh && is_settled((seen.use.*field).rc) ? seen.use.*field : read();
  };
  setting(&RawUse::compute_mode, [&] { return read_int(call.compute_mode, device); });
  if (seen.connectors || purpose == Purpose::examine)
    setting(&RawUse::display_active, [&] { return read_int(call.display_active, device); });
  setting(&RawUse::mig_mode, [&] { return read_mig_mode(call, device); });
  if (purpose != Purpose::claim) {
    if (seen.connectors) setting(&RawUse::display_mode, [&] { return read_int(call.display_mode, device); });
    else raw.display_mode = std::int64_t{0};
  }
  if (claimed) setting(&RawUse::accounting, [&] { return ask<std::uint32_t>(call.accounting_mode, device); });
  if (!seen.fabric_settled || purpose == Purpose::examine) raw.fabric = read_fabric(call, device);
  const RawFabric& fabric = raw.fabric.value;
  if (raw.fabric)
    seen.fabric_settled = fabric.state == abi::fabric_not_supported ||
                          (fabric.state == abi::fabric_completed && fabric.status == abi::ok);
  else if (is_settled(raw.fabric.rc)) seen.fabric_settled = true;
}

void Source::read_figures(RawUse& raw, const Seen& seen, const FieldReading& fields) const {
  const Functions& call = library_.call;
  auto utilization = ask<abi::Utilization>(call.utilization, seen.device);
  raw.utilization.rc = utilization.rc;
  raw.utilization.value = {utilization.value.gpu, utilization.value.memory};
  raw.temperature_c = read_temperature(call, seen.device);
  const auto milliwatts = [&](const Answer<std::uint64_t>& field, auto function) {
    if (field) return Answer<std::uint32_t>(static_cast<std::uint32_t>(std::min<std::uint64_t>(field.value, UINT32_MAX)));
    return ask<std::uint32_t>(function, seen.device);
  };
  raw.power_mw = milliwatts(fields.power_mw, call.power);
  raw.power_limit_mw = milliwatts(fields.power_limit_mw, call.power_limit);
}

// A GPU on which nobody computes and no memory is in use has an empty list of everything, and is asked for one of them. MPS
// clients can be missing from the other lists; then their memory is.
void Source::read_process_lists(RawUse& raw, Seen& seen, Purpose purpose) const {
  const Functions& call = library_.call;
  const bool mig = raw.mig_mode && raw.mig_mode.value == 1;
  const bool all = purpose == Purpose::examine || mig || (raw.display_active && raw.display_active.value != 0);
  raw.compute = processes(call.compute_processes, seen.device);
  const bool idle = raw.compute && raw.compute.value.empty() && unexplained(raw) == 0u;
  if (all || !idle) {
    raw.graphics = seen.use.graphics;
    const bool fresh = purpose == Purpose::show && !all && now() - seen.lists_read < lists_stay;
    const bool explains_as_much = raw.graphics && unexplained(raw) && unexplained(raw) == unexplained(seen.use);
    if (fresh && explains_as_much) {
      raw.mps = seen.use.mps;
    } else {
      seen.lists_read = now();
      raw.graphics = processes(call.graphics_processes, seen.device);
      if (all || unexplained(raw).value_or(1) > 0) raw.mps = processes(call.mps_processes, seen.device);
    }
  }
  // Without connectors a display is a server of graphics without a screen, which is on that list.
  if (raw.display_active.rc != abi::not_asked) return;
  const bool none_draws = (idle && !all) || (raw.graphics && raw.graphics.value.empty());
  raw.display_active = none_draws ? Answer<std::int64_t>(0) : read_int(call.display_active, seen.device);
}

RawProcesses Source::processes(const Versioned<Functions::ProcessList>& list, abi::Device device) const {
  return read_processes(list, device, driver_.driver.value);
}

void Source::read_instances(RawUse& raw, abi::Device device) const {
  const Functions& call = library_.call;
  auto most = ask<std::uint32_t>(call.max_mig_devices, device);
  std::uint32_t limit = most ? std::min<std::uint32_t>(most.value, 64) : 7;
  // Without the privilege for the sum over all instances, the instances are asked one by one.
  bool ask_each = !raw.compute;
  for (std::uint32_t i = 0; i < limit; ++i) {
    auto instance = ask<abi::Device>(call.mig_device, device, i);
    if (instance) raw.instances.push_back(read_instance(i, instance.value, ask_each));
    const abi::Return rc = instance ? raw.instances.back().uuid.rc : instance.rc;
    if (rc == abi::ok || rc == abi::not_found) continue;   // a hole: instances keep their index when others go
    if (rc != abi::invalid_argument && !is_settled(rc)) raw.instances_told = Answer<std::uint32_t>::refused(rc);
    break;
  }
  if (raw.instances_told.rc == abi::not_asked) raw.instances_told = static_cast<std::uint32_t>(raw.instances.size());
}

RawInstance Source::read_instance(std::uint32_t index, abi::Device device, bool want_processes) const {
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

void Source::listen() {
  const Functions& call = library_.call;
  abi::EventSet events = nullptr;
  if (driver_.init != abi::ok || !call.event_set_create || !call.event_register || !call.event_wait) return;
  std::vector<abi::Device> devices;
  {
    std::lock_guard guard(mutex_);
    if (listening_) return;                      // or about to: a driver that hangs in it is not asked again
    listening_ = true;
    for (const auto& [index, seen] : seen_) devices.push_back(seen.device);
  }
  const bool made = call.event_set_create(&events) == abi::ok;
  if (made)
    for (abi::Device device : devices) call.event_register(device, abi::event_xid, events);
  std::lock_guard guard(mutex_);
  if (made) events_ = events;
  listening_ = made;
}

// Where the driver says itself how each GPU is (field 230), they decide nothing.
bool Source::need_xids(Purpose purpose) const {
  const bool told = std::all_of(seen_.begin(), seen_.end(), [](const auto& entry) {
    return static_cast<bool>(entry.second.use.recovery_action);
  });
  if (!told || purpose == Purpose::examine) return true;
  return purpose == Purpose::show && now() - drained_ >= lists_stay;
}

void Source::drain_events(const ProbeRequest& request) {
  abi::EventSet events;
  {
    std::lock_guard guard(mutex_);
    events = events_;
    if (!events || !request.events || !need_xids(request.purpose)) return;
    drained_ = now();
  }
  for (int i = 0; i < 256; ++i) {
    abi::Event event{};
    if (library_.call.event_wait(events, &event, 0) != abi::ok) return;
    std::lock_guard guard(mutex_);
    if (event.type == abi::event_xid) xids_[event.device].push_back(event.value);
  }
}

}  // namespace thole::host::nvidia
