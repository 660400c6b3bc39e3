// How this works: each struct has one `fields` function that names its members in order; the writer and the reader are the two
// visitors that walk it, so that they cannot disagree. An Answer is written as its bare value, or as {"rc": N}; one that was
// never asked is left out.
#include "host/gpu/nvidia/raw.hpp"

#include <stdexcept>
#include <type_traits>

#include "model/json.hpp"

namespace thole::host::nvidia {
namespace {

using model::Json;

void fields(auto& v, auto& r) requires std::is_same_v<std::decay_t<decltype(r)>, RawDriver> {
  v("library", r.found_as); v("load_error", r.load_error); v("stub_library", r.stub_library);
  v("driver", r.driver); v("nvml", r.nvml); v("init", r.init); v("count", r.count);
}
void fields(auto& v, auto& r) requires std::is_same_v<std::decay_t<decltype(r)>, RawMemory> {
  v("total", r.total); v("free", r.free); v("used", r.used); v("reserved", r.reserved); v("v2", r.v2);
}
void fields(auto& v, auto& r) requires std::is_same_v<std::decay_t<decltype(r)>, RawProcess> {
  v("pid", r.pid); v("used_memory", r.used_memory); v("gi", r.gpu_instance); v("ci", r.compute_instance);
}
void fields(auto& v, auto& r) requires std::is_same_v<std::decay_t<decltype(r)>, RawLink> {
  v("link", r.link); v("remote", r.remote); v("remote_type", r.remote_type);
}
void fields(auto& v, auto& r) requires std::is_same_v<std::decay_t<decltype(r)>, RawPeer> {
  v("gpu", r.gpu); v("rc", r.rc); v("status", r.status);
}
void fields(auto& v, auto& r) requires std::is_same_v<std::decay_t<decltype(r)>, RawIdentity> {
  v("index", r.index); v("known", r.known); v("handle", r.handle); v("uuid", r.uuid); v("name", r.name); v("serial", r.serial);
  v("pci", r.pci); v("minor", r.minor);
  v("links", r.links); v("nvswitch_links", r.nvswitch_links); v("peers", r.peers);
  v("cpus_node", r.cpus_node); v("cpus_package", r.cpus_package);
}
void fields(auto& v, auto& r) requires std::is_same_v<std::decay_t<decltype(r)>, RawInstance> {
  v("index", r.index); v("uuid", r.uuid); v("name", r.name); v("gi", r.gpu_instance); v("ci", r.compute_instance);
  v("memory_mib", r.memory_mib); v("gpu_slices", r.gpu_slices); v("compute_slices", r.compute_slices); v("memory", r.memory);
  v("compute", r.compute); v("graphics", r.graphics); v("mps", r.mps);
}
void fields(auto& v, auto& r) requires std::is_same_v<std::decay_t<decltype(r)>, RawFabric> {
  v("state", r.state); v("status", r.status);
}
void fields(auto& v, auto& r) requires std::is_same_v<std::decay_t<decltype(r)>, RawUse> {
  v("index", r.index); v("memory", r.memory); v("utilization", r.utilization); v("temperature_c", r.temperature_c);
  v("power_mw", r.power_mw); v("power_limit_mw", r.power_limit_mw); v("compute_mode", r.compute_mode);
  v("display_active", r.display_active); v("display_mode", r.display_mode); v("recovery_action", r.recovery_action);
  v("remap_pending", r.remap_pending); v("remap_failed", r.remap_failed); v("clock_reasons", r.clock_reasons);
  v("fabric", r.fabric);
  v("compute", r.compute); v("graphics", r.graphics); v("mps", r.mps);
  v("accounting", r.accounting); v("mig_mode", r.mig_mode); v("instances", r.instances);
  v("instances_told", r.instances_told); v("xids", r.xids);
}
void fields(auto& v, auto& r) requires std::is_same_v<std::decay_t<decltype(r)>, RawUnlisted> {
  v("pci", r.pci); v("open_errno", r.open_errno);
}

void fields(auto& v, auto& r) requires std::is_same_v<std::decay_t<decltype(r)>, RawAccount> {
  v("pid", r.pid); v("peak_memory", r.peak_memory); v("started_us", r.started_us);
}
void fields(auto& v, auto& r) requires std::is_same_v<std::decay_t<decltype(r)>, RawAccounts> {
  v("uuid", r.uuid); v("list", r.list);
}

template <class T> struct IsAnswer : std::false_type {};
template <class T> struct IsAnswer<Answer<T>> : std::true_type {};
template <class T> struct IsVector : std::false_type {};
template <class T> struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
constexpr bool is_plain =
    std::is_arithmetic_v<T> || std::is_same_v<T, std::string> || std::is_same_v<T, std::array<std::uint32_t, 2>>;

// A library may hand out any bytes as a name; a record must stay valid UTF-8 and one line.
std::string clean(const std::string& text) {
  std::string out = text;
  for (char& c : out)
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  return out;
}

template <class T>
Json write(const T& value);

struct Writer {
  Json& out;
  template <class T>
  void operator()(const char* name, const T& value) {
    if constexpr (IsAnswer<T>::value) {
      if (value) out[name] = write(value.value);
      else if (value.rc != abi::not_asked) out[name] = Json{{"rc", value.rc}};
    } else {
      out[name] = write(value);
    }
  }
};

template <class T>
Json write(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return clean(value);
  } else if constexpr (is_plain<T>) {
    return value;
  } else if constexpr (IsVector<T>::value) {
    Json array = Json::array();
    for (const auto& element : value) array.push_back(write(element));
    return array;
  } else {
    Json object = Json::object();
    Writer writer{object};
    fields(writer, value);
    return object;
  }
}

template <class T>
void read_value(const Json& json, T& value);

struct Reader {
  const Json& in;
  template <class T>
  void operator()(const char* name, T& value) {
    auto at = in.find(name);
    if (at == in.end()) return;
    if constexpr (IsAnswer<T>::value) {
      bool refused = at->is_object() && at->size() == 1 && at->contains("rc");
      value.rc = refused ? at->at("rc").template get<abi::Return>() : static_cast<abi::Return>(abi::ok);
      if (!refused) read_value(*at, value.value);
    } else {
      read_value(*at, value);
    }
  }
};

template <class T>
void read_value(const Json& json, T& value) {
  if constexpr (is_plain<T>) {
    json.get_to(value);
  } else if constexpr (IsVector<T>::value) {
    if (!json.is_array()) throw std::runtime_error("expected an array");
    for (const Json& element : json) read_value(element, value.emplace_back());
  } else {
    if (!json.is_object()) throw std::runtime_error("expected an object");
    Reader reader{json};
    fields(reader, value);
  }
}

template <class T>
std::string tagged(const char* kind, const T& record) {
  return Json{{kind, write(record)}}.dump();
}

}  // namespace

std::string to_line(const RawDriver& record) { return tagged("driver", record); }
std::string to_line(const RawIdentity& record) { return tagged("identity", record); }
std::string to_line(const RawUse& record) { return tagged("use", record); }
std::string to_line(const RawUnlisted& record) { return tagged("unlisted", record); }
std::string to_line(const RawAccounts& record) { return tagged("accounts", record); }
std::string begin_line(std::uint32_t index) { return Json{{"begin", index}}.dump(); }

Record parse_line(std::string_view line) {
  Json json = Json::parse(line);
  if (!json.is_object() || json.size() != 1) throw std::runtime_error("not a record");
  Record record;
  auto take = [&](RecordKind kind, auto& into) { record.kind = kind; read_value(json.begin().value(), into); };
  const std::string kind = json.begin().key();
  if (kind == "driver") take(RecordKind::driver, record.driver);
  else if (kind == "begin") take(RecordKind::begin, record.begin);
  else if (kind == "identity") take(RecordKind::identity, record.identity);
  else if (kind == "use") take(RecordKind::use, record.use);
  else if (kind == "unlisted") take(RecordKind::unlisted, record.unlisted);
  else if (kind == "accounts") take(RecordKind::accounts, record.accounts);
  else throw std::runtime_error("unknown record: " + kind);
  return record;
}

}  // namespace thole::host::nvidia
