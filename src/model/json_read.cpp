// A machine from JSON: strict about types, tolerant of unknown fields, every mistake named by its path.
#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "model/json.hpp"
#include "model/json_field.hpp"

namespace thole::model {

namespace {

std::optional<CpuSet> cpus_at(const Field& owner, const char* key) {
  Field field = owner.at(key);
  if (field.null()) return std::nullopt;
  if (auto cpus = CpuSet::parse(field.text())) return cpus;
  field.fail("\"" + printable(field.text(), 60) + "\" is not a CPU list such as \"0-3,16-19\"");
}

std::optional<PciAddress> pci_at(const Field& owner) {
  Field field = owner.at("pci");
  if (field.null()) return std::nullopt;
  if (auto pci = PciAddress::parse(field.text())) return pci;
  field.fail("\"" + printable(field.text(), 60) + "\" is not a PCI address such as \"0000:07:00.0\"");
}

// An identity names files and goes into variables of the job, so its alphabet is small. "" when unknown.
std::string uuid_at(const Field& owner) {
  Field field = owner.at("uuid");
  std::string uuid = field.text_or_empty();
  bool plain = std::all_of(uuid.begin(), uuid.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("._:/-").find(c) != std::string_view::npos;
  });
  if (!plain || uuid.size() > 96) field.fail("an identity is up to 96 letters, digits and . _ : / -");
  return uuid;
}

GpuProcess process_from(const Field& field) {
  field.must_be_object();
  GpuProcess process;
  Field pid = field.at("pid");
  if (!pid.null()) process.pid = static_cast<pid_t>(pid.whole(Field::most_int));
  if (!pid.null() && process.pid == 0) pid.fail("a process id is at least 1");
  process.user = field.at("user").text_or_empty();
  process.command = field.at("command").text_or_empty();
  Field kind = field.at("kind");
  if (!kind.null()) process.kind = kind.one_of(parse_process_kind, "compute, graphics, both, mps");
  process.memory_mib = field.metric<std::uint64_t>("memory_mib", [](const Field& f) { return f.whole(Field::most_mib); });
  process.watch = field.at("watch").flag_or(false);
  return process;
}

Use use_from(const Field& field) {
  if (field.null()) return {};
  field.must_be_object();
  auto number = [](const Field& f) { return f.number(); };
  Use use;
  use.memory_used_mib = field.metric<std::uint64_t>("memory_used_mib", [](const Field& f) { return f.whole(Field::most_mib); });
  use.memory_free_mib = field.metric<std::uint64_t>("memory_free_mib", [](const Field& f) { return f.whole(Field::most_mib); });
  use.utilization_percent = field.metric<double>("utilization_percent", number);
  use.memory_utilization_percent = field.metric<double>("memory_utilization_percent", number);
  use.temperature_c = field.metric<double>("temperature_c", number);
  use.power_w = field.metric<double>("power_w", number);
  use.power_limit_w = field.metric<double>("power_limit_w", number);
  use.processes = field.metric<std::vector<GpuProcess>>("processes", [](const Field& list) {
    std::vector<GpuProcess> processes;
    list.each([&](const Field& f) { processes.push_back(process_from(f)); });
    return processes;
  });
  return use;
}

// One link, or several alike: "to" may be a list of addresses. A machine with 8 GPUs and 10 NICs needs a third of the size so.
void add_links(const Field& field, std::vector<Link>& links) {
  field.must_be_object();
  Link alike;
  alike.kind = field.at("kind").one_of(parse_link_kind, "nvlink, nvswitch, xgmi, c2c, pix, pxb, phb, node, sys");
  alike.count = field.at("count").maybe_int();
  alike.weight = field.at("weight").maybe_int();
  auto add = [&](const Field& to) {
    auto pci = PciAddress::parse(to.text());
    if (!pci) to.fail("\"" + printable(to.text(), 60) + "\" is not a PCI address such as \"0000:07:00.0\"");
    alike.to = *pci;
    links.push_back(alike);
  };
  Field to = field.at("to");
  if (to.is_list()) to.each(add);
  else add(to);
}

Instance instance_from(const Field& field) {
  field.must_be_object();
  Instance instance;
  instance.uuid = uuid_at(field);
  instance.profile = field.at("profile").text_or_empty();
  instance.memory_mib = field.at("memory_mib").maybe_mib();
  Field ids = field.at("instance");
  std::size_t given = 0;
  ids.each([&](const Field& id) {
    if (given == 2) ids.fail("expected two numbers: GPU instance and compute instance");
    instance.instance[given++] = static_cast<int>(id.whole(Field::most_int));
  });
  if (given == 1) ids.fail("expected two numbers: GPU instance and compute instance");
  instance.use = use_from(field.at("use"));
  return instance;
}

ProcessAccount account_from(const Field& field) {
  field.must_be_object();
  const Field started = field.at("started");
  const auto when = parse_iso(started.text());
  if (!when)
    started.fail("expected a time such as \"2026-11-21T14:20:05Z\", or with milliseconds \"2026-11-21T14:20:05.250Z\"");
  return {.started = *when, .peak_memory_mib = field.at("peak_memory_mib").whole(Field::most_mib)};
}

Gpu gpu_from(const Field& field) {
  field.must_be_object();
  Gpu gpu;
  gpu.uuid = uuid_at(field);
  gpu.vendor = field.at("vendor").one_of(parse_vendor, vendor_names());
  gpu.model = field.at("model").text_or_empty();
  gpu.serial = field.at("serial").text_or_empty();
  gpu.driver = field.at("driver").text_or_empty();
  gpu.pci = pci_at(field);
  gpu.part = field.at("part").maybe_int();
  gpu.minor = field.at("minor").maybe_int();
  gpu.cuda_index = field.at("cuda_index").maybe_int();
  gpu.memory_mib = field.at("memory_mib").maybe_mib();
  gpu.numa = field.at("numa").maybe_int();
  Field near = field.at("near_cpus");
  if (!near.null()) near.must_be_object();
  gpu.near_cpus = {.node = cpus_at(near, "node"), .package = cpus_at(near, "package")};
  Field links = field.at("links");
  links.each([&](const Field& f) { add_links(f, gpu.links); });
  Field mig = field.at("mig");
  mig.each([&](const Field& f) { gpu.mig.push_back(instance_from(f)); });
  gpu.mig_mode = field.at("mig_mode").flag_or(!gpu.mig.empty());
  gpu.memory_numa = field.at("memory_numa").maybe_int();
  gpu.coherent = field.at("coherent").flag_or(gpu.memory_numa.has_value());
  gpu.display = field.metric<bool>("display", [](const Field& f) { return f.flag(); });
  gpu.monitor = field.metric<bool>("monitor", [](const Field& f) { return f.flag(); });
  gpu.compute_mode = field.metric<std::string>("compute_mode", [](const Field& f) { return f.text(); });
  Field health = field.at("health");
  if (!health.null()) gpu.health = health.one_of(parse_health, "ok, lost, reset-required, driver-mismatch, unreadable, hung");
  gpu.health_reason = field.at("health_reason").text_or_empty();
  gpu.last_xid = field.at("last_xid").maybe_int();
  gpu.use = use_from(field.at("use"));
  if (const Field accounts = field.at("accounts"); !accounts.null()) {
    gpu.accounts.emplace();
    accounts.each([&](const Field& f) { gpu.accounts->push_back(account_from(f)); });
  }
  if (gpu.uuid.empty() && !gpu.pci) field.fail("a GPU needs a \"uuid\" or a \"pci\" address: it is claimed by it");
  return gpu;
}

std::vector<unsigned> list_at(const Field& owner, const char* key) {
  return owner.at(key).is_text() ? cpus_at(owner, key)->to_vector() : std::vector<unsigned>{};
}

// One PU, or many: "id", "core" and "l3" may be lists ({"id": "0-15,64-79", "core": "0-15", "l3": "0-3", "numa": 0, …}). Cores
// are taken in step with the ids, and from the first again: the second threads; each L3 has as many cores as the next. Files
// need a twentieth of the size so; they are read at every start.
void add_cpus(const Field& field, std::vector<Cpu>& cpus) {
  field.must_be_object();
  const Field id = field.at("id"), core = field.at("core"), l3 = field.at("l3");
  const std::vector<unsigned> ids = id.is_text() ? list_at(field, "id") : std::vector{static_cast<unsigned>(id.whole(65535))};
  const std::vector<unsigned> cores = list_at(field, "core"), caches = list_at(field, "l3");
  if (core.is_text() && (cores.empty() || ids.size() % cores.size() != 0))
    core.fail(fmt::format("{} cores for {} CPUs", cores.size(), ids.size()));
  if (l3.is_text() && (caches.empty() || cores.size() % caches.size() != 0 || cores.empty()))
    l3.fail(fmt::format("{} caches for {} cores", caches.size(), cores.size()));
  Cpu alike{.id = 0,
            .core = core.is_text() ? std::nullopt : core.maybe_int(),
            .l3 = l3.is_text() ? std::nullopt : l3.maybe_int(),
            .numa = field.at("numa").maybe_int(),
            .package = field.at("package").maybe_int()};
  for (std::size_t i = 0; i < ids.size(); ++i) {
    alike.id = ids[i];
    const std::size_t step = cores.empty() ? 0 : i % cores.size();
    if (!cores.empty()) alike.core = static_cast<int>(cores[step]);
    if (!caches.empty()) alike.l3 = static_cast<int>(caches[step * caches.size() / cores.size()]);
    cpus.push_back(alike);
  }
}

NumaNode node_from(const Field& field) {
  field.must_be_object();
  return {.id = static_cast<int>(field.at("id").whole(Field::most_int)), .memory_mib = field.at("memory_mib").maybe_mib()};
}

Nic nic_from(const Field& field) {
  field.must_be_object();
  Nic nic{.name = field.at("name").text(),
          .pci = pci_at(field),
          .numa = field.at("numa").maybe_int(),
          .rate_gbps = field.at("rate_gbps").maybe_number()};
  field.at("links").each([&](const Field& f) { add_links(f, nic.links); });
  return nic;
}

// An index is a position in PCI order everywhere, and a key belongs to one unit.
void check_order(const Field& list, const std::vector<Gpu>& gpus) {
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if (gpus[i].key() == gpus[j].key())
        list.fail(fmt::format("GPUs {} and {} have the same identity {}", j, i, gpus[i].key()));
    if (i == 0 || !gpus[i].pci || !gpus[i - 1].pci) continue;
    auto place = [&](std::size_t k) { return std::pair(*gpus[k].pci, gpus[k].part.value_or(0)); };
    if (place(i) < place(i - 1))
      list.fail(fmt::format(
          "GPU {} ({}) comes before GPU {} in PCI order; list them in that order, \"cuda_index\" is for another one", i,
          gpus[i].pci->to_string(), i - 1));
  }
}

}  // namespace

Gpu gpu_from_json(const Json& json, const std::string& path) { return gpu_from(Field(json, path)); }

Machine machine_from_json(const Json& json, const std::string& what) {
  Field root(json, "", what);
  if (!json.is_object()) root.fail(fmt::format("expected an object {{\"schema\": \"{}\", …}}", machine_schema));
  Field schema = root.at("schema");
  if (schema.null())
    root.fail(fmt::format("\"schema\" is missing; a machine file begins {{\"schema\": \"{}\", …", machine_schema));
  if (schema.text() != machine_schema)
    schema.fail(fmt::format("\"{}\" is not \"{}\", which this thole reads", printable(schema.text(), 60), machine_schema));
  Machine machine;
  machine.name = root.at("name").text_or_empty();
  machine.hwloc_xml = root.at("hwloc_xml").text_or_empty();
  Field cpus = root.at("cpus"), numa = root.at("numa"), gpus = root.at("gpus"), nics = root.at("nics"),
        outer = root.at("outer");
  cpus.each([&](const Field& f) { add_cpus(f, machine.cpus); });
  std::stable_sort(machine.cpus.begin(), machine.cpus.end(), [](const Cpu& a, const Cpu& b) { return a.id < b.id; });
  numa.each([&](const Field& f) { machine.numa.push_back(node_from(f)); });
  gpus.each([&](const Field& f) { machine.gpus.push_back(gpu_from(f)); });
  nics.each([&](const Field& f) { machine.nics.push_back(nic_from(f)); });
  if (!outer.null()) outer.must_be_object();
  Field visible = outer.at("visible_devices");
  if (!visible.null()) machine.outer.visible_devices = visible.text();
  machine.outer.allowed_cpus = cpus_at(outer, "allowed_cpus");
  check_order(gpus, machine.gpus);
  return machine;
}

}  // namespace thole::model
